package cellstate

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Key is where a record stands, below the cell's prefix. A key always ends its
// parent with a slash, so a job "a" never owns keys of "ab".
type Key string

// Kind is the first part of a key, or what stands below a slot.
type Kind int

// The kinds of records. A key of a kind that this release does not know is KindUnknown
// and is left alone.
const (
	KindUnknown Kind = iota
	KindJob
	KindPlacement
	KindEnded
	KindStatus
	KindNode
	KindIntent
	KindAlive
	KindScheduler
	KindInstance
	KindHold
	KindConflict
	KindWaiting
	KindMeta
	KindQuota
	KindShare
	KindExec
	KindAsk
	KindRollout
	KindRun
	KindSchedule
)

// JobKey is where a job's record stands.
func JobKey(j JobName) Key { return Key("jobs/" + j.Namespace + "/" + j.Name) }

// longestTaskKey has room for the key of any record of a task, whose names are DNS labels.
const longestTaskKey = len("tasks/") + 3*64 + 2*21 + len("placement")

// appendKey appends the key of what stands below the slot under a name.
func (s Slot) appendKey(b []byte, name string) []byte {
	b = append(b, "tasks/"...)
	for _, part := range [...]string{s.Namespace, s.Job, s.Group} {
		b = append(b, part...)
		b = append(b, '/')
	}
	b = strconv.AppendInt(b, int64(s.Index), 10)
	b = append(b, '@')
	b = strconv.AppendInt(b, s.Version, 10)
	b = append(b, '/')
	return append(b, name...)
}

func (s Slot) key(name string) Key {
	var buf [longestTaskKey]byte
	return Key(s.appendKey(buf[:0], name))
}

// PlacementKey is where the slot's live placement stands. A claim compares the range
// from ended/<attempt> to here as empty, so no other kind of record under a slot may
// ever have a name between "ended" and "placement".
func (s Slot) PlacementKey() Key { return s.key("placement") }

// StatusKey is where the status of the slot's live attempt stands.
func (s Slot) StatusKey() Key { return s.key("status") }

// EndedKey is where a finished attempt stands; padded, so that keys sort by attempt.
func (s Slot) EndedKey(attempt int) Key {
	var buf [longestTaskKey]byte
	b := s.appendKey(buf[:0], "ended/")
	for most := 100_000; most > 1 && attempt < most; most /= 10 {
		b = append(b, '0')
	}
	return Key(strconv.AppendInt(b, int64(attempt), 10))
}

// TasksKeys is the range of all records of a job's tasks.
func TasksKeys(j JobName) (from, end Key) {
	return prefixRange("tasks/" + j.Namespace + "/" + j.Name + "/")
}

// NodeKey is where the agent's facts about a node stand.
func NodeKey(n NodeName) Key { return Key("nodes/" + n) }

// IntentKey is where the operator's wishes for a node stand.
func IntentKey(n NodeName) Key { return Key("intents/" + n) }

// AliveKey is where a node's session stands.
func AliveKey(n NodeName) Key { return Key("alive/" + n) }

// SchedulerKey is where a scheduler's durable record stands.
func SchedulerKey(name string) Key { return Key("schedulers/" + name) }

// InstanceKey is where a scheduler instance's leased registration stands.
func InstanceKey(name, instance string) Key { return Key("schedulers/" + name + "/" + instance) }

// HoldKey is where a transaction's hold on a node stands.
func HoldKey(n NodeName, txn TxnID) Key { return Key("holds/" + string(n) + "/" + string(txn)) }

// ConflictKey is where an entry of the conflict journal stands; ids sort by time.
func ConflictKey(scheduler, id string) Key { return Key("conflicts/" + scheduler + "/" + id) }

// ExecKey is where the record of a program stands that was run in a task; ids sort by time.
func ExecKey(id string) Key { return Key("execs/" + id) }

// AskKey is where a question to a scheduler stands, and its answer.
func AskKey(scheduler, id string) Key { return Key("asks/" + scheduler + "/" + id) }

// WaitingKey is where a scheduler's last word on a waiting job stands.
func WaitingKey(j JobName) Key { return Key("events/waiting/" + j.Namespace + "/" + j.Name) }

// RolloutKey is where it stands how far a service's tasks have come to its newest version.
func RolloutKey(j JobName) Key { return Key("rollouts/" + j.Namespace + "/" + j.Name) }

// RunKey is where a run of a job stands that waits or is over; padded, so that keys sort.
func RunKey(j JobName, run int64) Key {
	return Key(fmt.Sprintf("runs/%s/%s/%08d", j.Namespace, j.Name, run))
}

// ScheduleKey is where it stands when runs of a job begin by themselves.
func ScheduleKey(j JobName) Key { return Key("schedules/" + j.Namespace + "/" + j.Name) }

// QuotaKey is where a quota stands.
func QuotaKey(s Scope) Key { return Key("quotas/" + s.Kind + "/" + s.Name) }

// ShareKey is where an instance's share of a quota stands.
func ShareKey(a Account) Key {
	return Key("shares/" + a.Scope.Kind + "/" + a.Scope.Name + "/" + a.Spender.Scheduler + "/" + a.Spender.Instance)
}

// MetaKey is where a fact about the store itself stands: format, incarnation, leader/….
func MetaKey(name string) Key { return Key("meta/" + name) }

// Parsed is a key taken apart. Only the fields of its kind are set.
type Parsed struct {
	Kind    Kind
	Job     JobName  // job, waiting, rollout, run, schedule
	Run     int64    // run
	Slot    Slot     // placement, ended, status
	Attempt int      // ended
	Node    NodeName // node, intent, alive, hold
	Name    string   // scheduler, instance, conflict and ask: the scheduler's; meta: the rest of the key
	ID      string   // instance; conflict, ask and exec id; a hold's transaction
	Scope   Scope    // quota, share
	Spender Spender  // share
}

// Parse takes k apart. A key that this release does not understand has KindUnknown.
func (k Key) Parse() Parsed {
	var parts [8]string
	p := splitKey(string(k), parts[:0])
	switch {
	case p[0] == "tasks" && len(p) >= 6:
		return parseTask(p)
	case p[0] == "jobs" && len(p) == 3:
		return Parsed{Kind: KindJob, Job: JobName{p[1], p[2]}}
	case p[0] == "rollouts" && len(p) == 3:
		return Parsed{Kind: KindRollout, Job: JobName{p[1], p[2]}}
	case p[0] == "runs" && len(p) == 4:
		if run, err := strconv.ParseInt(p[3], 10, 64); err == nil {
			return Parsed{Kind: KindRun, Job: JobName{p[1], p[2]}, Run: run}
		}
	case p[0] == "schedules" && len(p) == 3:
		return Parsed{Kind: KindSchedule, Job: JobName{p[1], p[2]}}
	case p[0] == "nodes" && len(p) == 2:
		return Parsed{Kind: KindNode, Node: NodeName(p[1])}
	case p[0] == "intents" && len(p) == 2:
		return Parsed{Kind: KindIntent, Node: NodeName(p[1])}
	case p[0] == "alive" && len(p) == 2:
		return Parsed{Kind: KindAlive, Node: NodeName(p[1])}
	case p[0] == "schedulers" && len(p) == 2:
		return Parsed{Kind: KindScheduler, Name: p[1]}
	case p[0] == "schedulers" && len(p) == 3:
		return Parsed{Kind: KindInstance, Name: p[1], ID: p[2]}
	case p[0] == "holds" && len(p) == 3:
		return Parsed{Kind: KindHold, Node: NodeName(p[1]), ID: p[2]}
	case p[0] == "conflicts" && len(p) == 3:
		return Parsed{Kind: KindConflict, Name: p[1], ID: p[2]}
	case p[0] == "asks" && len(p) == 3:
		return Parsed{Kind: KindAsk, Name: p[1], ID: p[2]}
	case p[0] == "execs" && len(p) == 2:
		return Parsed{Kind: KindExec, ID: p[1]}
	case p[0] == "events" && len(p) == 4 && p[1] == "waiting":
		return Parsed{Kind: KindWaiting, Job: JobName{p[2], p[3]}}
	case p[0] == "quotas" && len(p) == 3:
		return Parsed{Kind: KindQuota, Scope: Scope{p[1], p[2]}}
	case p[0] == "shares" && len(p) == 5:
		return Parsed{Kind: KindShare, Scope: Scope{p[1], p[2]}, Spender: Spender{p[3], p[4]}}
	case p[0] == "meta" && len(p) >= 2:
		return Parsed{Kind: KindMeta, Name: strings.Join(p[1:], "/")}
	}
	return Parsed{}
}

// splitKey is strings.Split by slashes into a slice of the caller's.
func splitKey(k string, into []string) []string {
	for {
		i := strings.IndexByte(k, '/')
		if i < 0 {
			return append(into, k)
		}
		into, k = append(into, k[:i]), k[i+1:]
	}
}

// parseTask takes tasks/<ns>/<job>/<group>/<index>@<version>/<what>[/<attempt>] apart.
func parseTask(p []string) Parsed {
	index, version, _ := strings.Cut(p[4], "@")
	i, err1 := strconv.Atoi(index)
	v, err2 := strconv.ParseInt(version, 10, 64)
	if err1 != nil || err2 != nil {
		return Parsed{}
	}
	slot := Slot{p[1], p[2], p[3], i, v}
	switch {
	case p[5] == "placement" && len(p) == 6:
		return Parsed{Kind: KindPlacement, Slot: slot}
	case p[5] == "status" && len(p) == 6:
		return Parsed{Kind: KindStatus, Slot: slot}
	case p[5] == "ended" && len(p) == 7:
		if attempt, err := strconv.Atoi(p[6]); err == nil {
			return Parsed{Kind: KindEnded, Slot: slot, Attempt: attempt}
		}
	}
	return Parsed{}
}

// NewValue is an empty message of the type stored under keys of this kind; nil for
// KindUnknown.
func (k Kind) NewValue() proto.Message {
	switch k {
	case KindJob:
		return new(ohmv1.Job)
	case KindPlacement:
		return new(ohmv1.Placement)
	case KindEnded:
		return new(ohmv1.Ended)
	case KindStatus:
		return new(ohmv1.Status)
	case KindNode:
		return new(ohmv1.Node)
	case KindIntent:
		return new(ohmv1.Intent)
	case KindAlive:
		return new(ohmv1.Alive)
	case KindScheduler:
		return new(ohmv1.Scheduler)
	case KindInstance:
		return new(ohmv1.SchedulerInstance)
	case KindHold:
		return new(ohmv1.Hold)
	case KindConflict:
		return new(ohmv1.Conflict)
	case KindWaiting:
		return new(ohmv1.Waiting)
	case KindMeta:
		return new(ohmv1.Meta)
	case KindQuota:
		return new(ohmv1.Quota)
	case KindShare:
		return new(ohmv1.Share)
	case KindRollout:
		return new(ohmv1.Rollout)
	case KindSchedule:
		return new(ohmv1.Schedule)
	case KindRun:
		return new(ohmv1.Run)
	case KindExec:
		return new(ohmv1.ExecRecord)
	case KindAsk:
		return new(ohmv1.Ask)
	}
	return nil
}

// prefixRange is the half-open range of the keys that begin with prefix, which ends
// with a slash.
func prefixRange(prefix string) (from, end Key) {
	return Key(prefix), Key(prefix[:len(prefix)-1] + "0") // '0' follows '/'
}
