package ohmjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// YAML turns one JSON document into block-style YAML with the same values in the
// same order, ending in a newline. Text that YAML might read as anything else is
// quoted, and so is all text with characters that would steer a terminal.
func YAML(data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a 64-bit number stays exact
	y := &yamlWriter{dec: dec}
	if err := y.value(0, "", "\n"); err != nil {
		return nil, fmt.Errorf("not one JSON document: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not one JSON document: there is more behind it")
	}
	return y.out.Bytes(), nil
}

type yamlWriter struct {
	dec *json.Decoder
	out bytes.Buffer
}

// value writes the next value of the document at depth. Short ones and the first
// line of a list's item follow inline; the lines of a map below a key follow block.
func (y *yamlWriter) value(depth int, inline, block string) error {
	t, err := y.dec.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if !y.dec.More() {
			y.out.WriteString(inline + map[json.Delim]string{'{': "{}", '[': "[]"}[t] + "\n")
			_, err := y.dec.Token()
			return err
		}
		if y.out.Len() > 0 {
			y.out.WriteString(block)
		}
		return y.collection(depth, t == '{', block == inline)
	case string:
		y.out.WriteString(inline + scalar(t) + "\n")
	case nil:
		y.out.WriteString(inline + "null\n")
	default:
		y.out.WriteString(fmt.Sprintf("%s%v\n", inline, t))
	}
	return nil
}

// collection writes a map or a list; inItem is one whose first line goes on behind
// the "- " of the list that it is an item of.
func (y *yamlWriter) collection(depth int, isMap, inItem bool) error {
	for first := true; y.dec.More(); first = false {
		if !first || !inItem {
			y.out.WriteString(strings.Repeat("  ", depth))
		}
		var err error
		if isMap {
			var key json.Token
			if key, err = y.dec.Token(); err != nil {
				return err
			}
			y.out.WriteString(scalar(fmt.Sprint(key)) + ":")
			err = y.value(depth+1, " ", "\n")
		} else {
			y.out.WriteString("-")
			err = y.value(depth+1, " ", " ")
		}
		if err != nil {
			return err
		}
	}
	_, err := y.dec.Token() // its end
	return err
}

// scalar writes s plain where nothing can take that for a number, a boolean or
// syntax; else as a JSON string, which YAML reads the same.
func scalar(s string) string {
	plain := regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`).MatchString(s)
	if plain && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	var b bytes.Buffer
	text(&b, s)
	return b.String()
}
