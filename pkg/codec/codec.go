// Package codec is gRPC's codec of protobuf for messages that have code of their own to be
// written and read with, and gRPC's for all others. A map of strings alone, such as a
// task's environment, costs the general code five allocations for each entry.
package codec

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Writing writes messages fast and reads them as gRPC does. It is for whoever must not
// trust what is sent: the fast code does not look at whether strings are UTF-8.
func Writing() encoding.CodecV2 { return writing{encoding.GetCodecV2(proto.Name)} }

// Reading reads messages fast and writes them as gRPC does: it refuses strings that are
// not UTF-8.
func Reading() encoding.CodecV2 { return reading{encoding.GetCodecV2(proto.Name)} }

type writing struct{ encoding.CodecV2 }

func (w writing) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(interface {
		SizeVT() int
		MarshalToSizedBufferVT([]byte) (int, error)
	})
	if !ok {
		return w.CodecV2.Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, size)
		_, err := m.MarshalToSizedBufferVT(b)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	if _, err := m.MarshalToSizedBufferVT((*b)[:size]); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

type reading struct{ encoding.CodecV2 }

// Unmarshal reads into a message that is empty. Its strings are parts of one copy of what
// was sent.
func (r reading) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(interface{ UnmarshalVTUnsafe([]byte) error })
	if !ok {
		return r.CodecV2.Unmarshal(data, v)
	}
	return m.UnmarshalVTUnsafe(data.Materialize())
}
