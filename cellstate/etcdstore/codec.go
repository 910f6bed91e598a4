package etcdstore

import "google.golang.org/protobuf/proto"

// fast is what the generated codec of the stored records offers. It reads and writes
// protobuf as the ordinary one does, fields of later releases included, in a fraction of
// the time.
type fast interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

func marshal(m proto.Message) ([]byte, error) {
	if f, ok := m.(fast); ok {
		return f.MarshalVT()
	}
	return proto.Marshal(m)
}

func unmarshal(raw []byte, m proto.Message) error {
	if f, ok := m.(fast); ok {
		return f.UnmarshalVT(raw)
	}
	return proto.Unmarshal(raw, m)
}
