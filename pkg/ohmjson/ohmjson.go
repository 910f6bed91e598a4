// Package ohmjson writes API messages as the JSON that Ohm promises to its users:
// the same for the CLI and for every other client.
//
// Names are in lowerCamel and in the order of the message. Numbers are JSON
// numbers, 64-bit ones too; times are RFC 3339 in UTC, durations seconds, bytes
// base64. An enum value goes by its name without the type's prefix: "NotIn". A
// scalar is always there, an empty list is [] and an empty map {}; a message or an
// optional scalar that is absent is left out. The same message always gives the
// same bytes.
package ohmjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal returns m as JSON on one line. It fails only for what JSON cannot hold:
// a number that is none, a time outside of the years 1 to 9999.
func Marshal(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	if err := message(&b, m.ProtoReflect()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// MarshalList returns list as one JSON array; an empty one as [].
func MarshalList[M proto.Message](list []M) ([]byte, error) {
	var b bytes.Buffer
	err := each(&b, '[', ']', len(list), func(i int) error { return message(&b, list[i].ProtoReflect()) })
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// each writes n things with commas between them and brackets around them.
func each(b *bytes.Buffer, first, last byte, n int, write func(i int) error) error {
	b.WriteByte(first)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(i); err != nil {
			return err
		}
	}
	b.WriteByte(last)
	return nil
}

func message(b *bytes.Buffer, m protoreflect.Message) error {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		return timestamp(b, m)
	case "google.protobuf.Duration":
		return duration(b, m)
	}
	var fields []protoreflect.FieldDescriptor
	for all, i := m.Descriptor().Fields(), 0; i < all.Len(); i++ {
		if f := all.Get(i); !f.HasPresence() || m.Has(f) {
			fields = append(fields, f)
		}
	}
	return each(b, '{', '}', len(fields), func(i int) error {
		text(b, fields[i].JSONName())
		b.WriteByte(':')
		if err := field(b, fields[i], m.Get(fields[i])); err != nil {
			return fmt.Errorf("%s: %w", fields[i].JSONName(), err)
		}
		return nil
	})
}

func field(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case f.IsMap():
		return mapping(b, f, v.Map())
	case f.IsList():
		list := v.List()
		return each(b, '[', ']', list.Len(), func(i int) error { return value(b, f, list.Get(i)) })
	}
	return value(b, f, v)
}

// mapping writes the keys in order, since a map in memory has none.
func mapping(b *bytes.Buffer, f protoreflect.FieldDescriptor, m protoreflect.Map) error {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(x, y protoreflect.MapKey) int { return strings.Compare(x.String(), y.String()) })
	return each(b, '{', '}', len(keys), func(i int) error {
		text(b, keys[i].String())
		b.WriteByte(':')
		return value(b, f.MapValue(), m.Get(keys[i]))
	})
}

func value(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return message(b, v.Message())
	case protoreflect.StringKind:
		text(b, v.String())
	case protoreflect.BytesKind:
		text(b, base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.EnumKind:
		enum(b, f.Enum(), v.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return fmt.Errorf("%v is not a JSON number", v.Float())
		}
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default: // booleans and whole numbers print as JSON has them
		fmt.Fprint(b, v.Interface())
	}
	return nil
}

// enum writes NotIn for OPERATOR_NOT_IN of Operator, and the bare number of a value
// that this release does not know.
func enum(b *bytes.Buffer, e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) {
	v := e.Values().ByNumber(n)
	if v == nil {
		fmt.Fprint(b, n)
		return
	}
	plain := strings.NewReplacer("_", "").Replace
	words := strings.Split(string(v.Name()), "_")
	for i := 1; i < len(words); i++ {
		if strings.EqualFold(plain(strings.Join(words[:i], "")), string(e.Name())) {
			words = words[i:]
			break
		}
	}
	for i, w := range words {
		if w != "" {
			words[i] = w[:1] + strings.ToLower(w[1:])
		}
	}
	text(b, strings.Join(words, ""))
}

// text writes a JSON string, with < > & as they are: the output is for programs and
// people, not for a page of HTML. JSON allows DEL and the control characters above it
// as they are; a terminal obeys them, so they are escaped like those below the space.
func text(b *bytes.Buffer, s string) {
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string in memory always encodes
	for _, c := range strings.TrimSuffix(quoted.String(), "\n") {
		if unicode.IsControl(c) {
			fmt.Fprintf(b, "\\u%04x", c)
		} else {
			b.WriteRune(c)
		}
	}
}
