package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file's shape, far above any sensible job and below what makes the
// YAML parser slow.
const (
	maxNesting = 50
	maxKeys    = 10_000
	maxItems   = 50_000
	maxTokens  = 150_000
)

// document returns the one YAML document of a file, nil after a fault.
func (r *reader) document(data []byte) ast.Node {
	if at := notText(data); at >= 0 {
		line := bytes.Count(data[:at], []byte("\n"))
		column := utf8.RuneCount(data[bytes.LastIndexByte(data[:at], '\n')+1 : at])
		r.faultAt(position{line + 1, column + 1}, "", "the file is not UTF-8 text from here on")
		return nil
	}
	file, err := parseYAML(string(data))
	var shape *shapeError
	if errors.As(err, &shape) {
		r.faultAt(shape.at, "", "%s", shape.message)
		return nil
	}
	if err != nil {
		r.syntax(data, err)
		return nil
	}
	var docs []*ast.DocumentNode
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
		default:
			docs = append(docs, doc)
		}
	}
	switch {
	case len(docs) == 0:
		r.faultAt(position{1, 1}, "", "the file is empty; a job file begins with job: and the job's name")
		return nil
	case len(docs) > 1:
		r.faultAt(positionOf(docs[1].Body), "", "the file holds %d documents; a job file holds one, so put each job into a file of its own", len(docs))
		return nil
	}
	return r.plain(place{name: "a job file"}, docs[0].Body)
}

// parseYAML turns a crash of the YAML parser into an error: a strange file must
// never take its reader down.
func parseYAML(data string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up on it: %v", p)
		}
	}()
	tokens := lexer.Tokenize(data)
	if err := checkShape(tokens); err != nil {
		return nil, err
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// notText is the offset of the first byte that is not text, -1 if all of it is.
func notText(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 || c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return i
		}
		i += size
	}
	return -1
}

// syntax words the YAML parser's error. A tab in the indentation is by far the
// commonest and gets a message of its own.
func (r *reader) syntax(data []byte, err error) {
	pos, message := position{1, 1}, ""
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		message = err.Error()
	} else {
		// Not Error(), which draws the source and takes a minute on a large file.
		message = syntax.GetMessage()
		if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
			pos = position{max(1, tk.Position.Line), max(1, tk.Position.Column)}
		}
	}
	lines := strings.Split(string(data), "\n")
	// Some errors are reported on the line before the tab.
	for n := pos.line; n <= min(pos.line+1, len(lines)); n++ {
		line := lines[n-1]
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
			r.faultAt(position{n, tab + 1}, "", "a tab in the indentation; YAML is indented with spaces only")
			return
		}
	}
	first, _, _ := strings.Cut(message, "\n")
	r.faultAt(pos, "", "not valid YAML: %s", first)
}

// shapeError refuses a file that is too deep or too large to be parsed in time.
type shapeError struct {
	at      position
	message string
}

func (e *shapeError) Error() string { return e.message }

// checkShape bounds the shape of a file before it is parsed.
func checkShape(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return &shapeError{position{1, 1}, fmt.Sprintf("the file has more than %d words and signs", maxTokens)}
	}
	flow, keys, items, entries, line := 0, 0, 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			entries++
			items++
		case token.MappingKeyType:
			entries++
		case token.CollectEntryType:
			items++
		case token.MappingValueType:
			keys++
		}
		at := position{tk.Position.Line, tk.Position.Column}
		switch {
		case flow > maxNesting, entries > maxNesting, tk.Position.IndentLevel > maxNesting:
			return &shapeError{at, fmt.Sprintf("maps and lists are nested more than %d deep", maxNesting)}
		case keys > maxKeys:
			return &shapeError{at, fmt.Sprintf("the file has more than %d keys", maxKeys)}
		case items > maxItems:
			return &shapeError{at, fmt.Sprintf("the file has more than %d list items", maxItems)}
		}
	}
	return nil
}
