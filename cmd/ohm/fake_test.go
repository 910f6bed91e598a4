package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fake is a cell that answers what the test put into it.
type fake struct {
	address string
	server  *grpc.Server

	mu         sync.Mutex
	submits    []*ohmv1.SubmitRequest
	submitErrs []error // of the next submissions, in order
	token      string  // of the last request
	moves      int     // answers to Rebalance
	stops      []*ohmv1.StopJobsRequest
	intents    []*ohmv1.SetIntentRequest
	requests   []any // other requests, for what flags became

	jobs       []*ohmv1.GetJobResponse
	watch      map[string][][]*ohmv1.JobStatus // by job: for each stream, what it sends; the last one stays open
	tasks      []*ohmv1.TaskView
	logs       []*ohmv1.LogChunk
	broken     int               // so many times a log, or a list of endpoints, breaks off
	more       []*ohmv1.LogChunk // what a log is afterwards
	nodes      []*ohmv1.NodeView
	schedulers []*ohmv1.SchedulerView
	quotas     []*ohmv1.QuotaView
	conflicts  []*ohmv1.ConflictView
	explain    *ohmv1.ExplainResponse
	node       *ohmv1.NodeAnswer
	decision   *ohmv1.Decision
	txn        *ohmv1.TxnView
	audit      *ohmv1.AuditResponse
	size       cellstate.Size
	store      *ohmv1.StoreStatusResponse
	steps      []*ohmv1.StoreStep // of a cure, after which nothing is wrong
	failure    error              // of every other request
}

// startFake serves f on a loopback port of its own until the test ends.
func startFake(t *testing.T, f *fake, opts ...grpc.ServerOption) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			f.mu.Lock()
			f.token = ""
			if values := md.Get("authorization"); len(values) > 0 {
				f.token = values[0]
			}
			f.requests = append(f.requests, req)
			f.mu.Unlock()
		}
		return next(ctx, req)
	}))
	f.address, f.server = listener.Addr().String(), grpc.NewServer(opts...)
	ohmv1.RegisterJobsServer(f.server, fakeJobs{fake: f})
	ohmv1.RegisterNodesServer(f.server, fakeNodes{fake: f})
	ohmv1.RegisterCellServer(f.server, fakeCell{fake: f})
	ohmv1.RegisterInsightServer(f.server, fakeInsight{fake: f})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.server.Serve(listener)
	}()
	t.Cleanup(func() {
		f.server.Stop()
		<-served
	})
	return f
}

func noSuch(format string, args ...any) error { return status.Errorf(codes.NotFound, format, args...) }

type fakeJobs struct {
	ohmv1.UnimplementedJobsServer
	*fake
}

func (f fakeJobs) Submit(_ context.Context, req *ohmv1.SubmitRequest) (*ohmv1.SubmitResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.submits = append(f.submits, req)
	if len(f.submitErrs) > 0 {
		err := f.submitErrs[0]
		f.submitErrs = f.submitErrs[1:]
		if err != nil {
			return nil, err
		}
	}
	resp := &ohmv1.SubmitResponse{Revision: 100}
	for _, j := range req.Jobs {
		resp.Jobs = append(resp.Jobs, &ohmv1.Submitted{Namespace: j.Namespace, Job: j.Name, Version: 1})
	}
	return resp, nil
}

func (f fakeJobs) Again(_ context.Context, req *ohmv1.AgainRequest) (*ohmv1.SubmitResponse, error) {
	return &ohmv1.SubmitResponse{Revision: 100, Jobs: []*ohmv1.Submitted{{Namespace: req.Namespace, Job: req.Job, Run: 3, Version: 3}}}, f.failure
}

func (f fakeJobs) History(_ context.Context, req *ohmv1.HistoryRequest) (*ohmv1.HistoryResponse, error) {
	attempt := func(n int32, cause string, ago time.Duration) *ohmv1.Attempt {
		return &ohmv1.Attempt{
			Task: "hello/main/3", Version: 2, Attempt: n, Node: "n7", State: "Failed", Cause: cause, ExitCode: 42,
			Placed: ageOf(ago), Started: ageOf(ago - time.Second), Ended: ageOf(ago - time.Minute),
		}
	}
	runs := []*ohmv1.RunView{
		{Namespace: "default", Job: "hello", Run: 3, State: "Pending", Submitted: ageOf(time.Minute), Message: "the run waits until the one before it has ended", RequestId: "R3", Again: 2, Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 4, Waiting: 4}}},
		{Namespace: "default", Job: "hello", Run: 2, Version: 2, State: "Failed", Submitted: ageOf(2 * time.Hour), Ended: ageOf(time.Hour), Elapsed: durationpb.New(time.Hour), RequestId: "R2", Message: "main/3 failed (exited 42) in attempt 2", Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 4, Succeeded: 3, Failed: 1}}},
	}
	if req.Run == 0 {
		return &ohmv1.HistoryResponse{Runs: runs}, f.failure
	}
	runs[1].Attempts, runs[1].AttemptsLeftOut = []*ohmv1.Attempt{attempt(1, "exited 42", 2*time.Hour), attempt(2, "exited 42", 90*time.Minute)}, 5
	return &ohmv1.HistoryResponse{Runs: runs[1:]}, f.failure
}

func (f fakeJobs) Get(_ context.Context, req *ohmv1.GetJobRequest) (*ohmv1.GetJobResponse, error) {
	if f.failure != nil {
		return nil, f.failure
	}
	for _, j := range f.jobs {
		if j.Status.Namespace == req.Namespace && j.Status.Job == req.Job {
			return j, nil
		}
	}
	return nil, noSuch("no job %s/%s", req.Namespace, req.Job)
}

func (f fakeJobs) List(_ context.Context, req *ohmv1.ListJobsRequest) (*ohmv1.ListJobsResponse, error) {
	resp := &ohmv1.ListJobsResponse{}
	for _, j := range f.jobs {
		if req.Namespace == "" || req.Namespace == j.Status.Namespace {
			resp.Jobs = append(resp.Jobs, j.Status)
		}
	}
	return resp, f.failure
}

func (f fakeJobs) Watch(req *ohmv1.GetJobRequest, stream grpc.ServerStreamingServer[ohmv1.JobStatus]) error {
	f.mu.Lock()
	streams := f.watch[req.Job]
	if len(streams) == 0 {
		f.mu.Unlock()
		return noSuch("no job %s", req.Job)
	}
	more := len(streams) > 1
	if more {
		f.watch[req.Job] = streams[1:]
	}
	f.mu.Unlock()
	for _, s := range streams[0] {
		if err := stream.Send(s); err != nil {
			return err
		}
	}
	if more {
		return status.Error(codes.Unavailable, "the server goes away")
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (f fakeJobs) Stop(_ context.Context, req *ohmv1.StopJobsRequest) (*ohmv1.StopJobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stops = append(f.stops, req)
	resp := &ohmv1.StopJobsResponse{}
	for _, name := range req.Jobs {
		if !slices.ContainsFunc(f.jobs, func(j *ohmv1.GetJobResponse) bool { return j.Status.Job == name }) {
			return nil, noSuch("no job %s", name)
		}
	}
	for _, j := range f.jobs {
		if req.All || slices.Contains(req.Jobs, j.Status.Job) {
			resp.Jobs = append(resp.Jobs, &ohmv1.JobStatus{
				Namespace: j.Status.Namespace, Job: j.Status.Job, Kind: j.Status.Kind, State: "Stopping",
				Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 2, Stopping: 2}}, Submitted: ageOf(time.Minute),
			})
		}
	}
	return resp, nil
}

func (f fakeJobs) ListTasks(_ context.Context, req *ohmv1.ListTasksRequest) (*ohmv1.ListTasksResponse, error) {
	resp := &ohmv1.ListTasksResponse{}
	for _, t := range f.tasks {
		job, _, _ := cutTask(t.Task)
		if (req.Job == "" || req.Job == job) && (req.Node == "" || req.Node == t.Node) {
			resp.Tasks = append(resp.Tasks, t)
		}
	}
	return resp, nil
}

func cutTask(task string) (job, group string, ok bool) {
	var req ohmv1.LogsRequest
	err := readTask(task, &req)
	return req.Job, req.Group, err == nil
}

func (f fakeJobs) Logs(req *ohmv1.LogsRequest, stream grpc.ServerStreamingServer[ohmv1.LogChunk]) error {
	f.mu.Lock()
	f.requests = append(f.requests, req)
	f.mu.Unlock()
	if req.Job != "hello" {
		return noSuch("no job %s", req.Job)
	}
	f.mu.Lock()
	chunks, breaks := f.logs, f.broken > 0
	if breaks {
		f.broken, f.logs = f.broken-1, f.more
	}
	f.mu.Unlock()
	for _, chunk := range chunks {
		if err := stream.Send(chunk); err != nil {
			return err
		}
	}
	if breaks {
		return status.Error(codes.Unavailable, "it broke")
	}
	return nil
}

type fakeNodes struct {
	ohmv1.UnimplementedNodesServer
	*fake
}

func (f fakeNodes) List(context.Context, *ohmv1.ListNodesRequest) (*ohmv1.ListNodesResponse, error) {
	return &ohmv1.ListNodesResponse{Nodes: f.nodes}, f.failure
}

// Get takes a task off the node each time, so that a drain ends.
func (f fakeNodes) Get(_ context.Context, req *ohmv1.GetNodeRequest) (*ohmv1.NodeView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.Node == req.Node {
			if n.State == "Draining" && n.Tasks > 0 {
				n.Tasks--
			}
			return n, nil
		}
	}
	return nil, noSuch("no node %s", req.Node)
}

func (f fakeNodes) SetIntent(_ context.Context, req *ohmv1.SetIntentRequest) (*ohmv1.NodeView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intents = append(f.intents, req)
	for _, n := range f.nodes {
		if n.Node == req.Node {
			if n.State = "Ready"; req.GetDrain() {
				n.State = "Draining"
			}
			n.Labels = maps.Clone(n.Labels)
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			for _, key := range req.GetRemoveLabels() {
				delete(n.Labels, key)
			}
			maps.Copy(n.Labels, req.GetLabels())
			return n, nil
		}
	}
	return nil, noSuch("no node %s", req.Node)
}

func (f fakeNodes) PlanDrain(_ context.Context, req *ohmv1.PlanDrainRequest) (*ohmv1.PlanDrainResponse, error) {
	return &ohmv1.PlanDrainResponse{Steps: []*ohmv1.DrainStep{
		{Namespace: "default", Task: "web/main/0", Attempt: 1, Kind: "service", State: "Running", Action: "Stop", Next: "Replaced", Nodes: 2,
			Detail: "is stopped at once; another attempt starts elsewhere while it ends, of 2 nodes with room now"},
		{Namespace: "default", Task: "sum/main/3", Attempt: 2, Kind: "batch", State: "Running", Action: "Wait", Next: "Pending",
			Detail: "may end by itself for " + req.GetDrainWithin().AsDuration().String()},
	}}, nil
}

type fakeCell struct {
	ohmv1.UnimplementedCellServer
	*fake
}

func (f fakeCell) Info(context.Context, *ohmv1.InfoRequest) (*ohmv1.InfoResponse, error) {
	return &ohmv1.InfoResponse{Cell: "dev", Version: "9.9.9", Revision: 815, Server: "s1", StoreFileBytes: f.size.File, StoreQuotaBytes: f.size.Quota}, f.failure
}

func (f fakeCell) ListSchedulers(context.Context, *ohmv1.ListSchedulersRequest) (*ohmv1.ListSchedulersResponse, error) {
	return &ohmv1.ListSchedulersResponse{Schedulers: f.schedulers}, f.failure
}

func (f fakeCell) StoreStatus(context.Context, *ohmv1.StoreStatusRequest) (*ohmv1.StoreStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store, f.failure
}

func (f fakeCell) CureStore(_ *ohmv1.CureStoreRequest, stream grpc.ServerStreamingServer[ohmv1.StoreStep]) error {
	for _, s := range f.steps {
		if err := stream.Send(s); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store = &ohmv1.StoreStatusResponse{Revision: 9031, HistoryFrom: 9031, Members: []*ohmv1.StoreMember{
		{Name: "ohm", Endpoint: "unix:///d/etcd.sock", Version: "3.6.0", Leader: true, FileBytes: 1 << 20, InUseBytes: 1 << 20, QuotaBytes: 16 << 20},
	}}
	return f.failure
}

func (f fakeCell) ListQuotas(context.Context, *ohmv1.ListQuotasRequest) (*ohmv1.ListQuotasResponse, error) {
	return &ohmv1.ListQuotasResponse{Quotas: f.quotas}, f.failure
}

func (f fakeCell) quota(kind, name string) (*ohmv1.QuotaView, error) {
	for _, q := range f.quotas {
		if q.Kind == kind && q.Name == name {
			return q, f.failure
		}
	}
	return nil, noSuch("%s %s has no quota", kind, name)
}

func (f fakeCell) GetQuota(_ context.Context, req *ohmv1.GetQuotaRequest) (*ohmv1.QuotaView, error) {
	return f.quota(req.Kind, req.Name)
}

func (f fakeCell) SetQuota(_ context.Context, req *ohmv1.SetQuotaRequest) (*ohmv1.QuotaView, error) {
	if req.Name == "nobody" {
		return nil, noSuch("scheduler %s not found", req.Name)
	}
	return &ohmv1.QuotaView{Kind: req.Kind, Name: req.Name, Limit: req.Limit, Granted: req.Limit, Used: req.Limit, Since: ageOf(0)}, f.failure
}

func (f fakeCell) DeleteQuota(_ context.Context, req *ohmv1.DeleteQuotaRequest) (*ohmv1.DeleteQuotaResponse, error) {
	_, err := f.quota(req.Kind, req.Name)
	return &ohmv1.DeleteQuotaResponse{}, err
}

type fakeInsight struct {
	ohmv1.UnimplementedInsightServer
	*fake
}

func (f fakeInsight) Explain(_ context.Context, req *ohmv1.GetJobRequest) (*ohmv1.ExplainResponse, error) {
	if f.explain == nil || f.explain.Job != req.Job {
		return nil, noSuch("no job %s", req.Job)
	}
	return f.explain, nil
}

func (f fakeInsight) ExplainNode(_ context.Context, req *ohmv1.ExplainNodeRequest) (*ohmv1.NodeAnswer, error) {
	if f.node == nil || f.node.Job != req.Job || f.node.Node != req.Node {
		return nil, noSuch("no job %s or no node %s", req.Job, req.Node)
	}
	return f.node, nil
}

func (f fakeInsight) ExplainTxn(_ context.Context, req *ohmv1.GetTxnRequest) (*ohmv1.Decision, error) {
	if f.decision == nil || f.decision.Transaction != req.Transaction {
		return nil, noSuch("transaction %s is beyond retention", req.Transaction)
	}
	return f.decision, nil
}

func (f fakeJobs) Endpoints(_ context.Context, req *ohmv1.EndpointsRequest) (*ohmv1.EndpointsResponse, error) {
	if req.GetJob() != "web" {
		return nil, noSuch("no job %s", req.GetJob())
	}
	return &ohmv1.EndpointsResponse{Revision: 815, Endpoints: []*ohmv1.Endpoint{
		{Namespace: "default", Task: "web/main/0", Version: 3, Attempt: 1, Node: "n1", Port: "http", Number: 8080, Address: "n1:8080"},
		{Namespace: "default", Task: "web/main/1", Version: 4, Attempt: 2, Node: "n7", Port: "http", Number: 20001, Address: "n7:20001"},
	}}, nil
}

// WatchEndpoints sends them, and later that there are none.
func (f fakeJobs) WatchEndpoints(req *ohmv1.EndpointsRequest, stream grpc.ServerStreamingServer[ohmv1.EndpointsResponse]) error {
	list, err := f.Endpoints(stream.Context(), req)
	if err != nil {
		return err
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	f.mu.Lock()
	breaks := f.broken > 0
	f.broken--
	f.mu.Unlock()
	if breaks {
		return status.Error(codes.Unavailable, "it broke")
	}
	return stream.Send(&ohmv1.EndpointsResponse{Revision: 816})
}

func (f fakeJobs) Scale(_ context.Context, req *ohmv1.ScaleRequest) (*ohmv1.ScaleResponse, error) {
	if req.GetJob() != "web" {
		return nil, noSuch("no job %s", req.GetJob())
	}
	return &ohmv1.ScaleResponse{Namespace: "default", Job: "web", Group: "main", Was: 10, Count: req.GetCount(), FileCount: 10, Version: 4, Revision: 815}, nil
}

// Rebalance makes one step, and another after a wait.
func (f fakeJobs) Rebalance(_ context.Context, req *ohmv1.RebalanceRequest) (*ohmv1.RebalanceResponse, error) {
	if req.GetJob() != "web" || req.GetAtOnce() != 2 {
		return nil, noSuch("no job %s", req.GetJob())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves++
	switch f.moves {
	case 1, 3:
		return &ohmv1.RebalanceResponse{Moved: &ohmv1.MoveStep{Namespace: "default", Task: fmt.Sprintf("web/main/%d", f.moves), Attempt: 1, Kind: "service", From: "n1", To: "n7"}}, nil
	case 2:
		return &ohmv1.RebalanceResponse{Waits: "2 of at most 2 tasks of group main of job web are down"}, nil
	}
	return &ohmv1.RebalanceResponse{Done: true}, nil
}

// Plan is one of a change of web, or of a new job.
func (f fakeInsight) Plan(_ context.Context, req *ohmv1.PlanRequest) (*ohmv1.PlanResponse, error) {
	resp := &ohmv1.PlanResponse{Token: "TOKEN", SnapshotRevision: 815}
	for _, j := range req.GetJobs() {
		p := &ohmv1.JobPlan{Namespace: j.Namespace, Job: j.Name, Kind: j.Kind, Version: 1, Placement: &ohmv1.PlacementPlan{Scheduler: j.Kind, Problem: "scheduler batch has not answered within 3s"},
			Effects: []*ohmv1.GroupEffect{{Group: "main", Action: "start", Tasks: 4, Indexes: "0-3", Why: "the job is new"}}}
		if j.Name == "web" {
			p.Was, p.WasState, p.Version = 3, "Running", 4
			p.Changes = []*ohmv1.FieldChange{{Field: "groups[main].image", Was: "app:1", Is: "app:2"}, {Field: "labels.team", Was: "a"}}
			p.Scaled = []*ohmv1.Scaled{{Group: "main", Count: 30, FileCount: 10}}
			p.Effects = []*ohmv1.GroupEffect{{Group: "main", Action: "update", Tasks: 30, Indexes: "0-29", Why: "changed: image"}}
			p.Placement = &ohmv1.PlacementPlan{Scheduler: "service", Instance: "a", SnapshotRevision: 815, Groups: []*ohmv1.GroupPlacement{{Group: "main", Wanted: 30, Placed: 2,
				Chosen:  []*ohmv1.ChosenNode{{Task: "web/main/0", Node: "n1"}, {Task: "web/main/1", Node: "n2", Victims: []string{"sum/main/0"}}},
				Waiting: &ohmv1.GroupWaiting{Group: "main", Waiting: 28, Nodes: 3}, Message: "main: no node for 28 tasks: of 3 nodes 3 short of cpu"}}}
		}
		resp.Jobs = append(resp.Jobs, p)
	}
	return resp, f.failure
}

func (f fakeInsight) PlanMoves(_ context.Context, req *ohmv1.PlanMovesRequest) (*ohmv1.PlanMovesResponse, error) {
	moves := []*ohmv1.MoveStep{
		{Namespace: "default", Task: "web/main/3", Attempt: 1, Kind: "service", From: "n1", To: "n7", Budget: "0 of at most 1 down"},
		{Namespace: "default", Task: "web/main/5", Attempt: 2, Kind: "service", From: "n2", To: "n7", Budget: "0 of at most 1 down"},
	}
	if req.GetJob() == "" {
		return &ohmv1.PlanMovesResponse{Moves: moves, Before: &ohmv1.MovesGain{StrandedGpuMilli: 3460, EmptyNodes: 1},
			After: &ohmv1.MovesGain{StrandedGpuMilli: 1200, EmptyNodes: 3}, SnapshotRevision: 815}, nil
	}
	return &ohmv1.PlanMovesResponse{Moves: moves, Before: &ohmv1.MovesGain{MostTasks: 4}, After: &ohmv1.MovesGain{MostTasks: 3, FewestTasks: 2}, SnapshotRevision: 815}, nil
}

func (f fakeInsight) ListConflicts(context.Context, *ohmv1.ListConflictsRequest) (*ohmv1.ListConflictsResponse, error) {
	return &ohmv1.ListConflictsResponse{Conflicts: f.conflicts}, f.failure
}

func (f fakeInsight) GetTxn(_ context.Context, req *ohmv1.GetTxnRequest) (*ohmv1.TxnView, error) {
	if f.txn == nil || f.txn.Transaction != req.Transaction {
		return nil, noSuch("transaction %s is beyond retention", req.Transaction)
	}
	return f.txn, nil
}

func (f fakeInsight) Audit(context.Context, *ohmv1.AuditRequest) (*ohmv1.AuditResponse, error) {
	return f.audit, f.failure
}

// noon is the time of every test.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func ageOf(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon().Add(-d)) }

// fullCell has something to say to every verb.
func fullCell() *fake {
	reservation := &ohmv1.Hold{
		Node: "n7", Txn: "T10", Scheduler: "batch", Instance: "i1", Slot: &ohmv1.Slot{Namespace: "default", Job: "large", Group: "main", Version: 1},
		Resources: &ohmv1.Resources{CpuMilli: 16000}, Time: ageOf(time.Minute),
		Reserves: true, Starts: ageOf(-20 * time.Second), Awaits: &ohmv1.Slot{Namespace: "default", Job: "hello", Group: "main"}, Ends: 3,
	}
	conflict := &ohmv1.ConflictView{
		Time: ageOf(5 * time.Second), Scheduler: "batch", Transaction: "T2", Namespace: "default", Job: "b", Task: "b/main/0",
		Node: "dev", Reason: "Resources", Dimension: "cpu", Wanted: "3", Free: "1",
		Winner:           &ohmv1.WinnerView{Scheduler: "service", Transaction: "T1", Task: "a/main/0", Namespace: "default", Revision: 813},
		SnapshotRevision: 812, StoreRevision: 815,
	}
	failed := &ohmv1.TaskView{
		Namespace: "default", Task: "train/worker/1", Version: 3, Attempt: 2, State: "Failed", Node: "n7", Cause: "exited 7",
		Since: ageOf(3 * time.Hour), ExitCode: 7, Transaction: "T0", Message: "it said:\n\x1b[31mno data\x07", Gpus: []*ohmv1.DeviceShare{{Id: "g0", Milli: 1000}, {Id: "g1", Milli: 460}},
	}
	hello := &ohmv1.JobStatus{
		Namespace: "default", Job: "hello", Kind: "batch", State: "Succeeded", Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 4, Succeeded: 4}},
		Scheduler: "batch", Precedence: 100, Version: 1, Submitted: ageOf(5 * time.Second), Ended: ageOf(3 * time.Second),
		Elapsed: durationpb.New(1900 * time.Millisecond), Revision: 815, RequestId: "R1",
	}
	train := &ohmv1.JobStatus{
		Namespace: "default", Job: "train", Kind: "ml", State: "Pending",
		Groups:    []*ohmv1.GroupCounts{{Name: "worker", Count: 4, Waiting: 3, Failed: 1}, {Name: "ps", Count: 1, Starting: 1}},
		Scheduler: "ml", Version: 3, Submitted: ageOf(26 * time.Hour), Elapsed: durationpb.New(26 * time.Hour), Message: "no node has 1 free GPU of V100M32", Revision: 815,
	}
	cpu := func(milli, gpus int64) *ohmv1.Amounts {
		return &ohmv1.Amounts{CpuMilli: &milli, MemoryBytes: proto.Int64(milli << 23), GpuMilli: &gpus}
	}
	return &fake{
		quotas: []*ohmv1.QuotaView{
			{Kind: "namespace", Name: "prod", Limit: cpu(10_000, 4000), Granted: cpu(9000, 2000), Used: cpu(3500, 500), Since: ageOf(26 * time.Hour), Shares: []*ohmv1.ShareView{
				{Scheduler: "batch", Instance: "one", State: "NotSeen", Granted: cpu(3500, 0), Used: cpu(3500, 0), Wanted: cpu(0, 0)},
				{Scheduler: "ml", Instance: "two", State: "Live", Granted: cpu(5500, 2000), Used: cpu(0, 500), Wanted: cpu(8000, 1000)},
			}},
			{Kind: "scheduler", Name: "batch", Limit: &ohmv1.Amounts{DiskBytes: proto.Int64(1 << 40)}, Granted: &ohmv1.Amounts{DiskBytes: proto.Int64(0)},
				Used: &ohmv1.Amounts{DiskBytes: proto.Int64(0)}, Since: ageOf(time.Minute)},
		},
		jobs: []*ohmv1.GetJobResponse{
			{Status: hello, Revision: 40, Job: &ohmv1.Job{Version: 1, RequestId: "R1", SubmitTime: hello.Submitted,
				Spec: &ohmv1.JobSpec{
					Namespace: "default", Name: "hello", Kind: "batch", Scheduler: "batch", Precedence: proto.Int32(100), Labels: map[string]string{"team": "vision", "a": "yes"},
					Retries: 3, MaxRuntime: durationpb.New(2 * time.Hour), Stop: &ohmv1.StopPolicy{Signal: "SIGTERM", Grace: durationpb.New(30 * time.Second), Replace: "afterExit"}, WhenSilent: &ohmv1.WhenSilent{Then: "never", After: durationpb.New(time.Minute)},
					Groups: []*ohmv1.Group{{
						Name: "main", Count: 4, Command: []string{"sh", "-c", "echo it's \"$OHM_TASK\""}, Env: map[string]string{"LR": "0.1"},
						Resources:   &ohmv1.Resources{CpuMilli: 100, MemoryBytes: 64 << 20},
						Gpus:        &ohmv1.GPURequest{Count: 1, Models: []string{"T4", "V100M32"}, ShareMilli: 460},
						Constraints: []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_NOT_IN, Values: []string{"a", "b"}}, {Key: "hollow", Op: ohmv1.Operator_OPERATOR_EXISTS}},
					}},
				},
				Done: &ohmv1.Outcome{State: "Succeeded", Time: hello.Ended},
			}},
			{Status: train, Job: &ohmv1.Job{Version: 3, Spec: &ohmv1.JobSpec{Namespace: "default", Name: "train", Kind: "ml", Precedence: proto.Int32(0), Gang: &ohmv1.Gang{Min: 5, OnTimeout: "wait", Timeout: durationpb.New(10 * time.Minute), WhenBroken: &ohmv1.WhenBroken{Then: "release", After: durationpb.New(5 * time.Minute)}}}}},
			{Status: &ohmv1.JobStatus{Namespace: "web", Job: "web", Kind: "service", State: "Running", Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 3, Running: 3}}, Scheduler: "service", Precedence: 200, Version: 2, Submitted: ageOf(90 * time.Minute)}},
		},
		tasks: []*ohmv1.TaskView{
			{Namespace: "default", Task: "hello/main/0", Version: 1, Attempt: 1, State: "Succeeded", Node: "dev", Cause: "exited 0", Since: ageOf(3 * time.Second), Transaction: "T1"},
			{Namespace: "default", Task: "train/worker/0", Version: 3, State: "Waiting", Since: ageOf(26 * time.Hour)},
			failed,
		},
		logs: []*ohmv1.LogChunk{{Stream: "stdout", Data: []byte("one\n")}, {Stream: "stderr", Data: []byte("two\n")}},
		nodes: []*ohmv1.NodeView{
			{Node: "dev", State: "Ready", Capacity: &ohmv1.Resources{CpuMilli: 4000, MemoryBytes: 16 << 30, DiskBytes: 100 << 30}, Used: &ohmv1.Resources{CpuMilli: 1500, MemoryBytes: 1288490189},
				Tasks: 2, Driver: "native", Capabilities: []string{"cgroup", "pid"}, AgentVersion: "0.1.0", Server: "s1", Since: ageOf(3 * time.Minute), Labels: map[string]string{"zone": "a"}, Attributes: map[string]string{"os": "linux", "arch": "amd64"}},
			{Node: "n7", State: "Draining", Capacity: &ohmv1.Resources{CpuMilli: 96000, MemoryBytes: 768 << 30}, Used: &ohmv1.Resources{CpuMilli: 97000}, Tasks: 1, Driver: "hollow", OverCommitted: true,
				Gpus:  []*ohmv1.GPUView{{Id: "g0", Model: "V100M32", UsedMilli: 1000, Health: "Healthy"}, {Id: "g1", Model: "V100M32", UsedMilli: 460, Health: "Bad", Why: "code 63"}},
				Holds: []*ohmv1.Hold{{Node: "n7", Txn: "T9", Scheduler: "ml", Instance: "i3", Slot: &ohmv1.Slot{Namespace: "default", Job: "train", Group: "worker", Index: 2, Version: 3}, Resources: &ohmv1.Resources{CpuMilli: 8000, MemoryBytes: 1 << 30}, Gpus: []*ohmv1.DeviceShare{{Id: "g1", Milli: 500}}, Time: ageOf(time.Second)}, reservation}},
		},
		schedulers: []*ohmv1.SchedulerView{
			{Scheduler: "batch", Policy: "batch", State: "Live", Instances: []string{"i1", "i2"}, Since: ageOf(time.Minute), Jobs: 1, BuiltIn: true},
			{Scheduler: "mine", Policy: "custom", State: "NotSeen", Since: ageOf(40 * time.Hour), Waiting: 3},
		},
		conflicts: []*ohmv1.ConflictView{conflict, {Time: ageOf(time.Minute), Scheduler: "ml", Transaction: "T3", Namespace: "default", Job: "train", Task: "train/worker/0", Node: "n7", Reason: "NodeGone"}},
		explain: &ohmv1.ExplainResponse{
			Namespace: "default", Job: "train", State: "Pending", Message: "3 tasks wait for a GPU", Scheduler: "ml", SchedulerState: "Live",
			Groups: []*ohmv1.GroupWaiting{{Group: "worker", Waiting: 3, Nodes: 9, Reasons: []*ohmv1.Reason{
				{Reason: "Resources", Dimension: "memory", Nodes: 5, Detail: "largest free: 6Gi of 8Gi on node n7", Remedy: "needs 2Gi more of memory on n7"}, {Reason: "Model", Nodes: 4}},
				Since: ageOf(26 * time.Hour), NoVictims: "on 1 of 1 nodes with tasks of lower precedence those have not run for 10s"}},
			Queue: &ohmv1.QueueView{
				Position: 13, Of: 20, TasksAhead: 14, WantsAhead: &ohmv1.Amounts{CpuMilli: proto.Int64(14000), GpuMilli: proto.Int64(2000)},
				Ahead: []*ohmv1.QueuedJob{
					{Namespace: "web", Job: "web", Scheduler: "service", Precedence: 200, Tasks: 3, Code: "HigherPrecedence"},
					{Namespace: "research", Job: "sweep", Scheduler: "ml", Tasks: 1, Code: "Turn"},
					{Namespace: "default", Job: "old", Scheduler: "ml", Tasks: 1, Code: "Older"}},
				Estimate: &ohmv1.Estimate{Start: ageOf(-90 * time.Second), Code: "Limits", Basis: "by the maxRuntime of what stands there: it may well be sooner"}},
			Unblocks:         []*ohmv1.Unblock{{Code: "Turn", Text: "its turn: 12 jobs are ahead of it"}, {Code: "Room", Text: "group worker needs 2Gi more"}},
			SnapshotRevision: 812, Time: ageOf(time.Second), Conflicts: []*ohmv1.ConflictView{conflict}, Tasks: []*ohmv1.TaskView{failed},
			Holds: []*ohmv1.Hold{{Node: "n7", Txn: "T9", Scheduler: "ml", Instance: "i3", Slot: &ohmv1.Slot{Namespace: "default", Job: "train", Group: "worker", Index: 2, Version: 3}, Resources: &ohmv1.Resources{CpuMilli: 8000, MemoryBytes: 1 << 30}, Time: ageOf(time.Second)}, reservation},
		},
		node: &ohmv1.NodeAnswer{
			Namespace: "default", Job: "train", Node: "n7", Scheduler: "ml", Instance: "i3", SnapshotRevision: 815, Basis: "the filters of policy ml",
			Groups: []*ohmv1.NodeGroup{
				{Group: "worker", Waiting: 3, GivesWay: "b/main/0", Refusals: []*ohmv1.NodeRefusal{
					{Reason: "Ineligible", Detail: "it is drained"},
					{Reason: "Resources", Dimension: "memory", Wanted: "8Gi", Free: "6Gi", Has: "768Gi", MoreTakers: 2, Takers: []*ohmv1.NodeTaker{
						{Namespace: "web", Task: "web/main/0", Transaction: "T1", Scheduler: "service", Precedence: 200, Takes: "700Gi"},
						{Namespace: "default", Task: "b/main/0", Transaction: "T2", Scheduler: "batch", Precedence: 100, Takes: "60Gi"},
						{Namespace: "default", Task: "c/main/0", Transaction: "T3", Scheduler: "batch", Precedence: 100, Takes: "1Gi"},
						{Namespace: "default", Task: "d/main/0", Transaction: "T4", Scheduler: "batch", Precedence: 100, Takes: "1Gi", Hold: true}}}}},
				{Group: "ps", Fits: true, Message: "no task of it waits for a node"},
			},
		},
		decision: &ohmv1.Decision{
			Transaction: "T2", Scheduler: "batch", Instance: "i1", Mode: "incremental", Claims: 2, SnapshotRevision: 812, Seed: 7, Time: ageOf(5 * time.Second),
			Groups: []*ohmv1.GroupDecision{
				{Namespace: "default", Job: "b", Group: "main", Claims: 2, Nodes: 9, Considered: 4, InFlight: 1, ScoredBy: "least stranded", Best: []*ohmv1.ScoredNode{{Node: "dev", Score: -12.25}, {Node: "n7", Score: -300}}},
				{Namespace: "default", Job: "b", Group: "side", Claims: 1}},
			Chosen: []*ohmv1.ChosenNode{
				{Namespace: "default", Task: "b/main/0", Attempt: 1, Node: "dev", Victims: []string{"c/main/0"}},
				{Namespace: "default", Task: "b/main/1", Attempt: 1, Node: "n7", Gpus: []*ohmv1.DeviceShare{{Id: "g1", Milli: 500}}}},
			MoreChosen: 1, Outcome: "Partly", Revision: 815, Committed: 1, Source: "log",
			Lost: []*ohmv1.LostClaim{{Task: "b/main/0", Node: "dev", Reason: "Resources", Dimension: "cpu", Wanted: "3", Free: "1", Winner: "a/main/0", WinnerScheduler: "service"}},
		},
		txn: &ohmv1.TxnView{Transaction: "T2", Scheduler: "batch", Instance: "i1", Mode: "incremental", Claims: 2, SnapshotRevision: 812, Time: ageOf(5 * time.Second),
			Committed: []*ohmv1.TxnClaim{{Namespace: "default", Task: "b/main/1", Attempt: 1, Node: "n7", Revision: 815, State: "Running"}}, Refused: []*ohmv1.ConflictView{conflict}},
		audit: &ohmv1.AuditResponse{FromRevision: 1, ToRevision: 9031, Revisions: 9030, Transactions: 412, Placements: 1807},
		store: &ohmv1.StoreStatusResponse{
			Revision: 9031, HistoryFrom: 812,
			Members: []*ohmv1.StoreMember{
				{Name: "ohm", Endpoint: "unix:///d/etcd.sock", Version: "3.6.0", Leader: true, FileBytes: 16 << 20, InUseBytes: 3 << 20, QuotaBytes: 16 << 20, Alarms: []string{"NOSPACE"}},
				{Name: "m2", Endpoint: "http://10.0.0.2:2379", Error: "connection refused"},
			},
			Findings: []string{"member ohm is full (alarm NOSPACE): the store takes no writes; running tasks and reads go on", "member m2 does not answer: connection refused"},
		},
		steps: []*ohmv1.StoreStep{
			{Step: "compact", Detail: "history begins at revision 9031", Milliseconds: 120},
			{Step: "defragment", Member: "ohm", Detail: "16Mi became 1Mi", Milliseconds: 1300},
			{Step: "disarm", Detail: "alarms NOSPACE ended: 1", Milliseconds: 4},
		},
	}
}
