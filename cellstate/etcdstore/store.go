// Package etcdstore is the cell's store on etcd: keys under /ohm/<cell>/ hold the
// records, which every mirror watches whole; keys under /ohm/<cell>! hold what nobody
// watches: the nodes' fences (!f/<node>), those of scopes (!s/<scope>), the senders' lanes (!t/<sender>/<lane>) and what
// a write that puts nothing leaves behind to be known by (!t/<sender>/proof/<i>).
//
// A commit is one etcd transaction. At its top stand the sender's lane and the store's
// incarnation; below it every write is a nested transaction that succeeds or fails
// alone. Limits of the server (operations along a path, bytes) are known or found out:
// requests are cut to fit, and of a write the conditions are made fewer.
//
// Commits and changes are nearly all of what goes over the wire, in requests and replies
// of many hundreds of small nested messages. They have a connection of their own on
// which these are appended and read by hand; everything else goes through etcd's client.
package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// format of the records; a store of another format is refused, not guessed at.
const format = "1"

// Config says where the store is and who is speaking.
type Config struct {
	Endpoints []string    // host:port, http(s):// or unix:// addresses
	TLS       *tls.Config // nil: plain
	Cell      string      // default: default
	// Sender names this process for its lanes. It must be unique among the live processes
	// of the cell and should be the same after a restart.
	Sender string
	// MaxTxnOps and MaxRequestBytes are the server's limits; 0: Open finds them out.
	MaxTxnOps       int
	MaxRequestBytes int
	// Timeout of one request; 0: 5 s.
	Timeout time.Duration
	Log     *zap.Logger

	dial []grpc.DialOption // for tests: a network that loses replies
}

// Store implements cellstate.Store, Leaser, Historian, Compactor and Lister.
type Store struct {
	cfg    Config
	client *clientv3.Client
	wire   conn   // for commits and changes
	prefix string // of the records
	side   string // of what nobody watches
	fences string // of the nodes' fences, a part of that
	lanes  chan *lane
	bodies bodies

	mu          sync.Mutex
	incarnation string // the record's bytes
	cluster     uint64 // etcd's id
	watches     map[*watch]bool
}

// lanes of one sender: how many of its requests may be under way at once.
const laneCount = 8

// Open connects to the store and prepares it if it is new. It fails within the
// timeout if nobody answers (ErrUnreachable) and if the store has another format.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.learnLimits(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.wire.Connect()
	return s, nil
}

// Dial only prepares the connections to a store, of which nothing but a cellstate.Carer
// can be used then: it looks at nothing that is stored, and writes nothing.
func Dial(cfg Config) (*Store, error) {
	if cfg.Cell == "" {
		cfg.Cell = "default"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Sender == "" {
		cfg.Sender = ulid.Make().String()
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints, TLS: cfg.TLS, DialTimeout: cfg.Timeout,
		DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:        cfg.dial,
		MaxCallSendMsgSize: mostSent, MaxCallRecvMsgSize: mostReceived,
		Logger: zap.NewNop(), // its retries are ours to report
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client: %w", err)
	}
	wire, err := connect(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("etcd connection: %w", err), client.Close())
	}
	s := &Store{cfg: cfg, client: client, wire: wire, prefix: "/ohm/" + cfg.Cell + "/", side: "/ohm/" + cfg.Cell + "!", fences: "/ohm/" + cfg.Cell + "!" + cellstate.SideFences,
		lanes: make(chan *lane, laneCount), watches: map[*watch]bool{}}
	for i := range laneCount {
		s.lanes <- &lane{key: key{s.side, fmt.Sprintf("t/%s/%d", cfg.Sender, i)}, unread: true}
	}
	return s, nil
}

// Close ends the connections; calls under way fail.
func (s *Store) Close() error { return errors.Join(s.wire.Close(), s.client.Close()) }

// prepare writes format and incarnation into an empty store and reads them back.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	formatKey, incarnationKey := s.key(cellstate.MetaKey("format")).String(), s.key(cellstate.MetaKey("incarnation")).String()
	read := func() (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(clientv3.OpGet(formatKey), clientv3.OpGet(incarnationKey)).Commit()
	}
	got, err := read()
	if err != nil {
		return s.failed(err)
	}
	if got.Responses[0].GetResponseRange().GetCount() == 0 { // a full store takes no such request, even one that would write nothing
		if err := s.initialize(ctx, formatKey, incarnationKey); err != nil {
			return err
		}
		if got, err = read(); err != nil {
			return s.failed(err)
		}
	}
	var raw [2]string
	var values [2]ohmv1.Meta
	for n := range values {
		kvs := got.Responses[n].GetResponseRange().GetKvs()
		if len(kvs) != 1 {
			return fmt.Errorf("the store has no %s record", []string{"format", "incarnation"}[n])
		}
		raw[n] = string(kvs[0].Value)
		if err := proto.Unmarshal(kvs[0].Value, &values[n]); err != nil {
			return fmt.Errorf("meta record %s: %w", kvs[0].Key, err)
		}
	}
	if v := values[0].GetValue(); v != format {
		return fmt.Errorf("the store has format %q; this release reads and writes format %q: use the release that wrote it, or another data dir", v, format)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incarnation, s.cluster = raw[1], got.Header.ClusterId
	return nil
}

// initialize writes format and incarnation, if nobody else has.
func (s *Store) initialize(ctx context.Context, formatKey, incarnationKey string) error {
	meta := func(v string) (string, error) {
		raw, err := proto.Marshal(&ohmv1.Meta{Value: v, Time: timestamppb.Now()})
		return string(raw), err
	}
	f, err := meta(format)
	if err != nil {
		return err
	}
	i, err := meta(ulid.Make().String())
	if err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(formatKey), "=", 0)).
		Then(clientv3.OpPut(formatKey, f), clientv3.OpPut(incarnationKey, i)).
		Commit()
	if err != nil {
		return s.failed(err)
	}
	return nil
}

func (s *Store) key(k cellstate.Key) key { return key{s.prefix, string(k)} }

func (s *Store) fenceKey(f *cellstate.FenceBump) key {
	if f.Scope == "" { // the hot path: nothing is joined
		return key{s.fences, string(f.Node)}
	}
	return key{s.side, f.Side()}
}

func (s *Store) identity() (incarnation string, cluster uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incarnation, s.cluster
}

// failed marks an error of a request that changed nothing.
func (s *Store) failed(err error) error {
	kind := cellstate.ErrUnreachable
	if errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
		kind = cellstate.ErrNoSpace
	}
	return fmt.Errorf("%w: etcd at %v: %w", kind, s.cfg.Endpoints, err)
}

var (
	_ cellstate.Store     = (*Store)(nil)
	_ cellstate.Leaser    = (*Store)(nil)
	_ cellstate.Historian = (*Store)(nil)
	_ cellstate.Compactor = (*Store)(nil)
	_ cellstate.Lister    = (*Store)(nil)
)
