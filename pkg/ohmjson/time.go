package ohmjson

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func parts(m protoreflect.Message) (seconds, nanos int64) {
	fields := m.Descriptor().Fields()
	return m.Get(fields.ByName("seconds")).Int(), m.Get(fields.ByName("nanos")).Int()
}

func timestamp(b *bytes.Buffer, m protoreflect.Message) error {
	seconds, nanos := parts(m)
	if err := (&timestamppb.Timestamp{Seconds: seconds, Nanos: int32(nanos)}).CheckValid(); err != nil {
		return err
	}
	text(b, time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano))
	return nil
}

// duration writes seconds with as many decimals as it takes to be exact.
func duration(b *bytes.Buffer, m protoreflect.Message) error {
	seconds, nanos := parts(m)
	if seconds < 0 && nanos > 0 || seconds > 0 && nanos < 0 || nanos <= -1e9 || nanos >= 1e9 {
		return fmt.Errorf("%d seconds and %d nanoseconds is not a duration", seconds, nanos)
	}
	if seconds < 0 || nanos < 0 {
		b.WriteByte('-')
		seconds, nanos = -seconds, -nanos
	}
	fmt.Fprint(b, seconds)
	if nanos > 0 {
		b.WriteString("." + strings.TrimRight(fmt.Sprintf("%09d", nanos), "0"))
	}
	return nil
}
