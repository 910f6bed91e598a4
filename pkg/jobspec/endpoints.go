package jobspec

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/names"
)

const (
	endpointsOpen  = "{{endpoints"
	endpointsClose = "}}"
)

// ExpandEndpoints replaces each {{endpoints JOB[/GROUP] PORT}} of a variable's value by what of says.
// Everything else in braces is the user's own.
func ExpandEndpoints(value string, of func(job, group, port string) string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, endpointsOpen)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		inner, after, closed := strings.Cut(rest, endpointsClose)
		words := strings.Fields(inner)
		if !closed || len(words) != 2 || !strings.HasPrefix(inner, " ") {
			return "", fmt.Errorf("%s is not as in {{endpoints JOB PORT}} or {{endpoints JOB/GROUP PORT}}", quote(endpointsOpen+inner))
		}
		job, group, grouped := strings.Cut(words[0], "/")
		for _, n := range []struct{ what, name string }{{"job", job}, {"group", group}, {"port", words[1]}} {
			if n.what == "group" && !grouped {
				continue
			}
			if err := names.Check(n.what, n.name); err != nil {
				return "", err
			}
		}
		out.WriteString(of(job, group, words[1]))
		value = after
	}
}
