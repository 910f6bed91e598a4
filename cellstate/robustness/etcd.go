package robustness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oklog/ulid/v2"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// etcd is three members, each a process.
type etcd struct {
	program string
	dir     string // of folders and logs
	limits  Limits
	members []*member
	client  *clientv3.Client // of the run itself, on no relay
}

type member struct {
	Member
	process *process // nil: it does not run
}

const members = 3

// newEtcd starts the members.
func newEtcd(ctx context.Context, program, dir string, limits Limits) (*etcd, error) {
	ports, err := freePorts(2 * members)
	if err != nil {
		return nil, err
	}
	e := &etcd{program: program, dir: dir, limits: limits}
	var cluster []string
	for i := range members {
		m := Member{Name: fmt.Sprintf("etcd-%d", i), Client: ports[2*i], Peer: ports[2*i+1], Limits: limits}
		m.Dir = filepath.Join(dir, m.Name)
		cluster = append(cluster, m.Name+"=http://"+m.Peer)
		e.members = append(e.members, &member{Member: m})
	}
	for _, m := range e.members {
		m.Cluster = strings.Join(cluster, ",")
	}
	e.client, err = clientv3.New(clientv3.Config{Endpoints: e.endpoints(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	if err := e.startAll(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, e.serving(ctx)
}

// freePorts are addresses on which nobody listens now, below the ports that the kernel gives
// to connections: a process that is killed finds its own again.
func freePorts(n int) (all []string, err error) {
	for tries := 0; len(all) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(18_000)))
		if err != nil {
			if tries > 1000 {
				return nil, err
			}
			continue
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

func (e *etcd) endpoints() (all []string) {
	for _, m := range e.members {
		all = append(all, m.Client)
	}
	return all
}

// startAll starts the members that do not run, at the same time: they wait for each other.
func (e *etcd) startAll() error {
	errs := make(chan error, len(e.members))
	for _, m := range e.members {
		go func() { errs <- e.start(m) }()
	}
	var all []error
	for range e.members {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (e *etcd) start(m *member) (err error) {
	if m.process != nil {
		return nil
	}
	m.process, err = start(e.program, e.dir, m.Name, "member", "-name", m.Name, "-dir", m.Dir, "-client", m.Client, "-peer", m.Peer,
		"-cluster", m.Cluster, "-txn-ops", fmt.Sprint(e.limits.TxnOps), "-request-bytes", fmt.Sprint(e.limits.RequestBytes))
	return err
}

func (m *member) kill() error {
	if m.process == nil {
		return nil
	}
	err := m.process.kill()
	m.process = nil
	return err
}

func (e *etcd) close() error {
	errs := []error{e.client.Close()}
	for _, m := range e.members {
		errs = append(errs, m.kill())
	}
	return errors.Join(errs...)
}

// serving waits until the etcd answers what must go through its leader.
func (e *etcd) serving(ctx context.Context) error {
	return until(ctx, "etcd serves", func(ctx context.Context) error {
		_, err := e.client.Get(ctx, "serving")
		return err
	})
}

// leader is the member that leads, as the others see it too.
func (e *etcd) leader(ctx context.Context) (leader *member, err error) {
	err = until(ctx, "a leader", func(ctx context.Context) error {
		votes := map[uint64]int{}
		byID := map[uint64]*member{}
		for _, m := range e.members {
			if m.process == nil || m.process.stopped {
				continue
			}
			s, err := e.client.Status(ctx, m.Client)
			if err != nil {
				continue
			}
			votes[s.Leader]++
			byID[s.Header.MemberId] = m
		}
		for id, n := range votes {
			if leader = byID[id]; leader != nil && n > members/2 {
				return nil
			}
		}
		return errors.New("the members name none")
	})
	return leader, err
}

// alarm raises or ends the alarm that there is no space left.
func (e *etcd) alarm(ctx context.Context, raise bool) error {
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	status, err := e.client.Status(ctx, leader.Client)
	if err != nil {
		return err
	}
	if !raise {
		_, err = e.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}) // all there are
		return err
	}
	_, err = pb.NewMaintenanceClient(e.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE})
	return err
}

// save copies the members' folders as they stand, the members frozen meanwhile: what a
// snapshot of their disks would hold.
func (e *etcd) save() (folder string, err error) {
	folder, err = os.MkdirTemp(e.dir, "saved-")
	if err != nil {
		return "", err
	}
	var errs []error
	for _, m := range e.members {
		errs = append(errs, m.process.stop())
	}
	for _, m := range e.members {
		errs = append(errs, copyFolder(m.Dir, filepath.Join(folder, m.Name)))
	}
	for _, m := range e.members {
		errs = append(errs, m.process.resume())
	}
	return folder, errors.Join(errs...)
}

// restore kills all members and starts them on what was saved. The store gets a new
// incarnation before anybody but the run may speak to it.
func (e *etcd) restore(ctx context.Context, folder string) error {
	for _, m := range e.members {
		if err := m.kill(); err != nil {
			return err
		}
		if err := os.RemoveAll(m.Dir); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(folder, m.Name), m.Dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := e.startAll(); err != nil {
		return err
	}
	if err := e.serving(ctx); err != nil {
		return err
	}
	raw, err := proto.Marshal(&ohmv1.Meta{Value: ulid.Make().String(), Time: timestamppb.Now()})
	if err != nil {
		return err
	}
	_, err = e.client.Put(ctx, "/ohm/default/meta/incarnation", string(raw))
	return err
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), raw, 0o600)
	})
}

// errHopeless marks what no further try can mend.
var errHopeless = errors.New("it cannot go on")

// until tries again until it works or a minute is over.
func until(ctx context.Context, what string, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		trying, done := context.WithTimeout(ctx, 2*time.Second)
		err := try(trying)
		done()
		if err == nil || errors.Is(err, errHopeless) {
			return err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("not in time: %s: %w", what, err)
		}
	}
}
