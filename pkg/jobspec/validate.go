package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ohmcell/ohm/pkg/names"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
)

// Limits of one job.
const (
	MaxSize   = 1 << 20   // bytes, of a job file and of the stored message
	maxTasks  = 1_000_000 // of all groups together
	maxGPUs   = 1024      // of one task
	maxText   = 256       // bytes, of a value
	maxQuoted = 60        // characters of a value that a message quotes
)

// Problem is one thing that is wrong with a job, wherever it came from.
type Problem struct {
	Field   string // such as groups[0].cpu
	Message string
}

func (p Problem) String() string { return p.Field + ": " + p.Message }

type problems []Problem

func (ps *problems) add(field, format string, args ...any) {
	*ps = append(*ps, Problem{field, fmt.Sprintf(format, args...)})
}

func (ps *problems) check(field string, err error) {
	if err != nil {
		ps.add(field, "%v", err)
	}
}

// Validate judges a job as any client may send it, before or after Defaults, and
// returns what is wrong with it, root causes only. It is the whole rule: a job
// file is refused for nothing else, except for what only a file can show (a key
// that is misspelt, given twice or missing, a unit).
func Validate(spec *ohmv1.JobSpec) []Problem {
	var ps problems
	if spec == nil {
		ps.add("", "there is no job")
		return ps
	}
	ps.check("job", names.Check("job name", spec.Name))
	if spec.Namespace != "" {
		ps.check("namespace", names.Check("namespace", spec.Namespace))
	}
	if spec.Scheduler != "" {
		ps.check("scheduler", names.Check("scheduler name", spec.Scheduler))
	}
	if p := spec.GetPrecedence(); p < 0 || p > MaxPrecedence {
		ps.add("precedence", "precedence %d is not between 0 and %d", p, MaxPrecedence)
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Labels)) {
		ps.check("labels."+key, names.CheckKey("label", key))
		ps.check("labels."+key, names.CheckValue("label", key, spec.Labels[key]))
	}
	kindKnown := checkKind(&ps, spec)
	if spec.Retries < 0 {
		ps.add("retries", "retries %d is negative", spec.Retries)
	}
	if spec.MaxRuntime != nil {
		if wrong := checkDuration(spec.MaxRuntime, time.Millisecond); wrong != "" {
			ps.add("maxRuntime", "maxRuntime %s; leave it out for no limit", wrong)
		}
	}
	checkStop(&ps, spec.Stop)
	if kindKnown {
		checkReplace(&ps, spec)
		checkRetry(&ps, spec)
		checkUpdate(&ps, spec)
	}
	checkSilent(&ps, spec, kindKnown)
	checkDisruption(&ps, spec, kindKnown)
	checkArray(&ps, spec, kindKnown)
	checkAfter(&ps, spec, kindKnown)
	checkSchedule(&ps, spec, kindKnown)
	checkGroups(&ps, spec, kindKnown)
	if size := proto.Size(spec); size > MaxSize {
		ps.add("", "the job takes %d bytes, more than the limit of %s", size, resource.FormatBytes(MaxSize))
	}
	return ps
}

// checkKind also checks what only some kinds may have, and reports whether the
// kind is known at all: nothing that hangs on it is judged otherwise.
func checkKind(ps *problems, spec *ohmv1.JobSpec) bool {
	kind := spec.Kind
	if kind == "" {
		ps.add("kind", "kind is missing; it is one of %s", strings.Join(Kinds(), ", "))
		return false
	}
	if !slices.Contains(Kinds(), kind) {
		ps.add("kind", "kind %s %s", quote(kind), oneOf(kind, Kinds()))
		return false
	}
	if spec.Retries > 0 && kind != "batch" && kind != "ml" {
		ps.add("retries", "%s", onlyFor("retries", "batch, ml", kind))
	}
	if kind == "ml" {
		checkGang(ps, spec)
	} else if spec.Gang != nil {
		ps.add("gang", "%s", onlyFor("gang", "ml", kind))
	}
	return true
}

// onlyFor words the refusal of a field that jobs of this kind do not have.
func onlyFor(name, kinds, kind string) string {
	if name == "count" {
		return "a system job has no count; it runs one task on each eligible node"
	}
	if last := strings.LastIndex(kinds, ", "); last >= 0 {
		kinds = kinds[:last] + " and " + kinds[last+2:]
	}
	return fmt.Sprintf("%s is only for %s jobs, and this is a %s job", name, kinds, kind)
}

func checkStop(ps *problems, stop *ohmv1.StopPolicy) {
	if stop == nil {
		return
	}
	if s := stop.Signal; s != "" && !slices.Contains(Signals(), s) {
		message := oneOf(s, Signals())
		if full := "SIG" + strings.ToUpper(s); slices.Contains(Signals(), full) {
			message = "is not a signal's name; did you mean " + full + "?"
		}
		ps.add("stop.signal", "stop.signal %s %s", quote(s), message)
	}
	if stop.Grace != nil {
		if wrong := checkDuration(stop.Grace, 0); wrong != "" {
			ps.add("stop.grace", "stop.grace %s", wrong)
		}
	}
}

// only reports whether every byte of s is of a class.
func only(s string, class func(c byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !class(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' }

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// quote keeps a message short whatever was written.
func quote(s string) string {
	if r := []rune(s); len(r) > maxQuoted {
		return fmt.Sprintf("%q…", string(r[:maxQuoted]))
	}
	return fmt.Sprintf("%q", s)
}
