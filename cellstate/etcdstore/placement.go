package etcdstore

import (
	"bytes"

	"google.golang.org/protobuf/types/known/timestamppb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// parts are the messages that nearly every placement points to, in one piece of memory:
// a mirror holds hundreds of thousands of placements, and half of what they cost it is to
// allocate and to collect. The placement itself is not in it, because the collector is
// slower with objects of more than 512 bytes.
type parts struct {
	slot      ohmv1.Slot
	resources ohmv1.Resources
	fence     ohmv1.Fence
	time      timestamppb.Timestamp
}

// Fields of ohm.v1.Placement that are messages.
const (
	placementSlot      = 1<<3 | bytesType
	placementResources = 4<<3 | bytesType
	placementTime      = 17<<3 | bytesType
	placementFence     = 18<<3 | bytesType
)

// parsePlacement reads the same as the generated code. The strings point into a copy of raw.
func parsePlacement(raw []byte) (*ohmv1.Placement, error) {
	p, with := new(ohmv1.Placement), new(parts)
	for f := read(raw); f.next(); { // what is absent must stay nil
		switch f.tag {
		case placementSlot:
			p.Slot = &with.slot
		case placementResources:
			p.Resources = &with.resources
		case placementTime:
			p.Time = &with.time
		case placementFence:
			p.Fence = &with.fence
		}
	}
	return p, p.UnmarshalVTUnsafe(bytes.Clone(raw))
}
