package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Bounds of what the store keeps of programs that were run in tasks.
const (
	execsKept     = 1000
	commandAtMost = 2 << 10 // bytes of one; the log has all of it
)

// shortened is a command as it is kept: of a long one its beginning.
func shortened(command []string) (short []string) {
	left := commandAtMost
	for _, word := range command {
		if len(word) > left {
			word = word[:left]
			for !utf8.ValidString(word) && word != "" { // a message holds whole characters
				word = word[:len(word)-1]
			}
			return append(short, word+"…")
		}
		short = append(short, word)
		left -= len(word) + 1
	}
	return short
}

// execBegins writes down that a program is about to be run. The oldest records beyond the bound
// go with the same write.
func (s *Server) execBegins(ctx context.Context, r *ohmv1.ExecRecord) error {
	key := cellstate.ExecKey(r.GetId())
	_, err := s.write(ctx, func(snapshot *cellstate.Snapshot) (cellstate.Write, error) {
		if snapshot.RecordRevision(key) > 0 {
			return cellstate.Write{}, nil // the first try has worked
		}
		w := cellstate.Write{Records: []cellstate.Record{{Key: key, Value: r}}}
		var all []string
		for old := range snapshot.Execs() {
			all = append(all, old.GetId())
		}
		if over := len(all) + 1 - execsKept; over > 0 {
			w.Guards = append(w.Guards, cellstate.Guard{
				Key: cellstate.ExecKey(all[0]), End: cellstate.ExecKey(all[over]), Revision: snapshot.Revision(), NotNewer: true, Delete: true,
			})
		}
		return w, nil
	})
	return err
}

// execEnded writes down how a program has ended (end), or why that is not known, in the store
// and, with the whole command, in the log.
func (s *Server) execEnded(ctx context.Context, r *ohmv1.ExecRecord, command []string, end *ohmv1.ExecEnd, why error) {
	ended := proto.CloneOf(r)
	ended.Ended = timestamppb.Now()
	if end != nil {
		ended.Code, ended.Result = proto.Int32(end.GetCode()), fmt.Sprintf("exited %d", end.GetCode())
	} else {
		ended.Result = "failed: " + why.Error()
	}
	s.log.Info("exec", zap.String("who", r.GetWho()), zap.String("namespace", r.GetNamespace()), zap.String("task", r.GetTask()),
		zap.Int32("attempt", r.GetAttempt()), zap.String("node", r.GetNode()), zap.Strings("command", command),
		zap.Time("began", r.GetTime().AsTime()), zap.String("result", ended.GetResult()))
	key := cellstate.ExecKey(r.GetId())
	_, err := s.write(context.WithoutCancel(ctx), func(snapshot *cellstate.Snapshot) (cellstate.Write, error) {
		at := snapshot.RecordRevision(key)
		if at == 0 { // so many have come since that it has gone
			return cellstate.Write{}, nil
		}
		return cellstate.Write{Records: []cellstate.Record{{Key: key, Value: ended, Read: at}}}, nil
	})
	if err != nil {
		s.log.Warn("how a program has ended stands in this log alone", zap.String("id", r.GetId()), zap.Error(err))
	}
}

// ListExecs lists the programs that were run in the cell, the newest first.
func (s *jobs) ListExecs(ctx context.Context, req *ohmv1.ListExecsRequest) (*ohmv1.ListExecsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	list := &ohmv1.ListExecsResponse{}
	for r := range snapshot.Execs() {
		job, _, _ := strings.Cut(r.GetTask(), "/")
		if req.GetNamespace() != "" && req.GetNamespace() != r.GetNamespace() || req.GetJob() != "" && req.GetJob() != job {
			continue
		}
		if r.GetEnded() == nil && r.GetServer() == s.cfg.Name && !s.gateway.execs.carries(r.GetId()) {
			r = proto.CloneOf(r)
			r.Result = "its end was not seen"
		}
		list.Execs = append(list.Execs, r)
	}
	slices.Reverse(list.Execs)
	return list, nil
}
