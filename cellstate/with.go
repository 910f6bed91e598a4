package cellstate

// With is the snapshot that there would be if records were written on top of this one: what
// is tried on it is tried, and stored nowhere.
func (s *Snapshot) With(records ...Record) (*Snapshot, error) {
	b := Batch{Revision: s.Revision() + 1}
	for _, r := range records {
		b.Changes = append(b.Changes, Change{Key: r.Key, Value: r.Value, Deleted: r.Value == nil, Revision: b.Revision})
	}
	next, _, err := s.Apply(b)
	return next, err
}
