package jobspec

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What a check goes by that does not say it.
const (
	defaultStartPeriod = 10 * time.Second
	defaultInterval    = 5 * time.Second
	defaultTimeout     = 2 * time.Second
	defaultFailures    = 3
	minInterval        = 100 * time.Millisecond
	maxFailures        = 1000
)

func healthFields() []field[ohmv1.Health] {
	type of = ohmv1.Health
	check := func(into func(*of) **ohmv1.Check) func(*reader, place, ast.Node, *of) {
		return func(r *reader, at place, v ast.Node, h *of) {
			c := &ohmv1.Check{}
			*into(h) = c
			readMap(r, at, v, checkFields(), c)
		}
	}
	return []field[of]{
		{name: "ready", form: "map", preset: "none", meaning: "May the task be given work? It says so in the task's status, and `ohm run --wait` waits for it. Nothing is ended over it.", aka: []string{"readiness", "readinessProbe"},
			read: check(func(h *of) **ohmv1.Check { return &h.Ready })},
		{name: "live", form: "map", preset: "none", meaning: "Does the task still work? One that fails it is ended, with the cause Unhealthy, and counts as failed by its own fault.", aka: []string{"liveness", "livenessProbe"},
			read: check(func(h *of) **ohmv1.Check { return &h.Live })},
	}
}

func checkFields() []field[ohmv1.Check] {
	type check = ohmv1.Check
	return []field[check]{
		{name: "http", form: "map: `port` (a name), `path`", preset: "none", meaning: "GET of a path on one of the task's ports, on 127.0.0.1 or in the task's own network; a status from 200 to 399 is good. Redirections are not followed.", aka: []string{"httpGet"},
			read: func(r *reader, at place, v ast.Node, c *check) {
				c.Http = &ohmv1.HTTPCheck{}
				readMap(r, at, v, httpFields(), c.Http)
			}},
		{name: "tcp", form: "map: `port` (a name)", preset: "none", meaning: "A connection to one of the task's ports is good.", aka: []string{"tcpSocket"},
			read: func(r *reader, at place, v ast.Node, c *check) {
				c.Tcp = &ohmv1.TCPCheck{}
				readMap(r, at, v, tcpFields(), c.Tcp)
			}},
		{name: "exec", form: "map: `command`", preset: "none", meaning: "A command in the task's main container; exit code 0 is good.",
			read: func(r *reader, at place, v ast.Node, c *check) {
				c.Exec = &ohmv1.ExecCheck{}
				readMap(r, at, v, execFields(), c.Exec)
			}},
		{name: "startPeriod", form: "duration", preset: "`10s`", meaning: "The time from the task's start in which failures of `live` do not count.", aka: []string{"initialDelaySeconds", "initialDelay"},
			read: func(r *reader, at place, v ast.Node, c *check) { c.StartPeriod = r.duration(at, v) }},
		{name: "interval", form: "duration", preset: "`5s`", meaning: "The pause between two probes.", aka: []string{"periodSeconds", "period"},
			read: func(r *reader, at place, v ast.Node, c *check) { c.Interval = r.duration(at, v) }},
		{name: "timeout", form: "duration", preset: "`2s`", meaning: "How long one probe may take.", aka: []string{"timeoutSeconds"},
			read: func(r *reader, at place, v ast.Node, c *check) { c.Timeout = r.duration(at, v) }},
		{name: "failures", form: "number", preset: "3", meaning: "How many failures in a row mean something.", aka: []string{"failureThreshold", "retries"},
			read: func(r *reader, at place, v ast.Node, c *check) {
				if c.Failures = r.whole(at, v); c.Failures == 0 && !r.bad[at.path] {
					r.fault(at, "failures 0 is not at least 1") // in the message 0 is none given
				}
			}},
	}
}

func httpFields() []field[ohmv1.HTTPCheck] {
	type http = ohmv1.HTTPCheck
	return []field[http]{
		{name: "port", form: "name", preset: "required", meaning: "One of the group's `ports`.",
			read: func(r *reader, at place, v ast.Node, c *http) { c.Port = r.name(at, v) }},
		{name: "path", form: "text", preset: "`/`", meaning: "What to get.",
			read: func(r *reader, at place, v ast.Node, c *http) { c.Path = r.name(at, v) }},
	}
}

func tcpFields() []field[ohmv1.TCPCheck] {
	type tcp = ohmv1.TCPCheck
	return []field[tcp]{
		{name: "port", form: "name", preset: "required", meaning: "One of the group's `ports`.",
			read: func(r *reader, at place, v ast.Node, c *tcp) { c.Port = r.name(at, v) }},
	}
}

func execFields() []field[ohmv1.ExecCheck] {
	type exec = ohmv1.ExecCheck
	return []field[exec]{
		{name: "command", form: "list of text", preset: "required", meaning: "The program and its arguments. No shell reads it.",
			read: func(r *reader, at place, v ast.Node, c *exec) { c.Command = r.texts(at, v) }},
	}
}

func checkHealth(ps *problems, at string, g *ohmv1.Group) {
	h := g.GetHealth()
	if h == nil {
		return
	}
	if h.GetReady() == nil && h.GetLive() == nil {
		ps.add(at, "health has neither a check ready nor one live")
	}
	if c := h.GetReady(); c != nil {
		checkCheck(ps, at+".ready", "ready", c, g.GetPorts())
	}
	if c := h.GetLive(); c != nil {
		checkCheck(ps, at+".live", "live", c, g.GetPorts())
	}
}

func checkCheck(ps *problems, at, name string, c *ohmv1.Check, ports []*ohmv1.Port) {
	port := func(at, of string) {
		known := slices.ContainsFunc(ports, func(p *ohmv1.Port) bool { return p.GetName() == of })
		switch {
		case of == "":
			ps.add(at+".port", "port is missing; it names one of the group's ports")
		case !known:
			ps.add(at+".port", "port %s is none of the group's ports", quote(of))
		}
	}
	kinds := 0
	if c.GetHttp() != nil {
		kinds++
		port(at+".http", c.GetHttp().GetPort())
		path := c.GetHttp().GetPath()
		if path != "" && (!strings.HasPrefix(path, "/") || len(path) > maxText || !printable(path) || strings.ContainsAny(path, " #")) {
			ps.add(at+".http.path", "path %s is not an absolute path of at most %d bytes", quote(path), maxText)
		}
	}
	if c.GetTcp() != nil {
		kinds++
		port(at+".tcp", c.GetTcp().GetPort())
	}
	if c.GetExec() != nil {
		kinds++
		command := c.GetExec().GetCommand()
		if len(command) == 0 || command[0] == "" || slices.ContainsFunc(command, func(word string) bool { return !passable(word) }) {
			ps.add(at+".exec.command", "command is missing, begins with an empty word or has a zero byte in it")
		}
	}
	if kinds != 1 {
		ps.add(at, "check %s has %d of http, tcp and exec; it takes exactly one", name, kinds)
	}
	for _, d := range []struct {
		name  string
		of    *durationpb.Duration
		least time.Duration
	}{{"startPeriod", c.StartPeriod, 0}, {"interval", c.Interval, minInterval}, {"timeout", c.Timeout, time.Millisecond}} {
		if d.of == nil {
			continue
		}
		if wrong := checkDuration(d.of, d.least); wrong != "" {
			ps.add(at+"."+d.name, "%s %s", d.name, wrong)
		}
	}
	if c.Failures < 0 || c.Failures > maxFailures {
		ps.add(at+".failures", "failures %d is not between 1 and %d", c.Failures, maxFailures)
	}
}

// defaultHealth fills in what the checks of a group leave out.
func defaultHealth(h *ohmv1.Health) {
	for _, c := range []*ohmv1.Check{h.GetReady(), h.GetLive()} {
		if c == nil {
			continue
		}
		for into, otherwise := range map[**durationpb.Duration]time.Duration{
			&c.StartPeriod: defaultStartPeriod, &c.Interval: defaultInterval, &c.Timeout: defaultTimeout,
		} {
			if *into == nil {
				*into = durationpb.New(otherwise)
			}
		}
		if c.Failures == 0 {
			c.Failures = defaultFailures
		}
		if c.GetHttp() != nil && c.GetHttp().GetPath() == "" {
			c.Http.Path = "/"
		}
	}
}

// healthSections are the maps of health for the reference.
func healthSections() []section {
	return []section{
		sectionOf("health", "`health` of a group", "", healthFields()),
		sectionOf("a check", "`ready` and `live` of `health`: exactly one of `http`, `tcp`, `exec`, and the others", "", checkFields()),
	}
}
