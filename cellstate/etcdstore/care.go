package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// slowStep bounds one step of a cure. A large member takes its time, in which it answers
// nobody.
const slowStep = 10 * time.Minute

// Status asks each member, at the endpoints that are configured or, for one that answers
// at none of them, where it says itself that it is.
func (s *Store) Status(ctx context.Context) (*ohmv1.StoreStatusResponse, error) {
	listing, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	list, err := s.client.MemberList(listing)
	if err != nil {
		return nil, s.failed(err)
	}
	at := map[uint64]string{}
	answers := map[uint64]*clientv3.StatusResponse{}
	for _, endpoint := range s.client.Endpoints() {
		if status, err := s.statusAt(ctx, endpoint); err == nil {
			at[status.Header.MemberId], answers[status.Header.MemberId] = endpoint, status
		}
	}
	resp := &ohmv1.StoreStatusResponse{}
	for _, m := range list.Members {
		view := &ohmv1.StoreMember{Name: m.Name, Endpoint: at[m.ID]}
		status := answers[m.ID]
		if status == nil {
			status, err = nil, errors.New("it has not started")
			if len(m.ClientURLs) > 0 {
				view.Endpoint = m.ClientURLs[0]
				status, err = s.statusAt(ctx, view.Endpoint)
			}
			if err != nil {
				view.Error = err.Error()
			}
		}
		if status != nil && err == nil {
			view.Version, view.Leader = status.Version, status.Leader == m.ID
			view.FileBytes, view.InUseBytes, view.QuotaBytes = status.DbSize, status.DbSizeInUse, max(0, status.DbSizeQuota)
			resp.Revision = max(resp.Revision, status.Header.Revision)
		}
		resp.Members = append(resp.Members, view)
	}
	alarms, err := s.client.AlarmList(listing)
	if err != nil {
		return nil, s.failed(err)
	}
	for _, a := range alarms.Alarms {
		for i, m := range list.Members {
			if m.ID == a.MemberID {
				resp.Members[i].Alarms = append(resp.Members[i].Alarms, a.Alarm.String())
			}
		}
	}
	if oldest, err := s.oldest(listing); err == nil {
		resp.HistoryFrom = oldest
	}
	resp.Findings = diagnose(resp)
	return resp, nil
}

// diagnose says what is wrong with a store.
func diagnose(s *ohmv1.StoreStatusResponse) (findings []string) {
	found := func(m *ohmv1.StoreMember, text string, args ...any) {
		findings = append(findings, fmt.Sprintf("member %s ", m.Name)+fmt.Sprintf(text, args...))
	}
	for _, m := range s.Members {
		size := cellstate.Size{InUse: m.InUseBytes, File: m.FileBytes, Quota: m.QuotaBytes}
		full := slices.Contains(m.Alarms, etcdserverpb.AlarmType_NOSPACE.String())
		switch {
		case m.Error != "":
			found(m, "does not answer: %s", m.Error)
		case size.Needed() >= cellstate.StoreNearlyFull:
			found(m, "needs %d%% of its quota for what is stored: give etcd a larger --quota-backend-bytes, or remove jobs", size.Needed())
		case size.Filled() >= cellstate.StoreFilling:
			found(m, "has a file of %d%% of its quota, of which %s are free: a cure gives them back", size.Filled(), resource.RoundBytes(size.File-size.InUse))
		}
		if full {
			found(m, "is full (alarm NOSPACE): the store takes no writes; running tasks and reads go on")
		}
		if slices.Contains(m.Alarms, etcdserverpb.AlarmType_CORRUPT.String()) {
			found(m, "is corrupt (alarm CORRUPT): replace it, as etcd's documentation says")
		}
	}
	return findings
}

func (s *Store) statusAt(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.cfg.Timeout, 2*time.Second))
	defer cancel()
	return s.client.Status(ctx, endpoint)
}

// Cure follows etcd's own advice for a full store: compact, defragment, disarm. A member
// that cannot be helped does not keep it from the others.
func (s *Store) Cure(ctx context.Context, told func(*ohmv1.StoreStep)) error {
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if err := s.step(ctx, told, &ohmv1.StoreStep{Step: "compact"}, func(ctx context.Context) (string, error) {
		_, err := s.client.Compact(ctx, status.Revision, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) {
			err = nil
		}
		return fmt.Sprintf("history begins at revision %d", status.Revision), err
	}); err != nil {
		return err
	}
	err = s.Defragment(ctx, told)
	return errors.Join(err, s.disarm(ctx, told))
}

// Defragment makes one member after the other give back what is free in its file.
func (s *Store) Defragment(ctx context.Context, told func(*ohmv1.StoreStep)) error {
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range status.Members {
		if m.Error != "" {
			errs = append(errs, fmt.Errorf("%w: member %s at %s: %s", cellstate.ErrUnreachable, m.Name, m.Endpoint, m.Error))
			continue
		}
		errs = append(errs, s.step(ctx, told, &ohmv1.StoreStep{Step: "defragment", Member: m.Name}, func(ctx context.Context) (string, error) {
			if _, err := s.client.Defragment(ctx, m.Endpoint); err != nil {
				return "", err
			}
			after, err := s.statusAt(ctx, m.Endpoint)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s became %s", resource.RoundBytes(m.FileBytes), resource.RoundBytes(after.DbSize)), nil
		}))
	}
	return errors.Join(errs...)
}

// disarm ends the alarm of a full store. One of a corrupt member is not ours to end.
func (s *Store) disarm(ctx context.Context, told func(*ohmv1.StoreStep)) error {
	return s.step(ctx, told, &ohmv1.StoreStep{Step: "disarm"}, func(ctx context.Context) (string, error) {
		alarms, err := s.client.AlarmList(ctx)
		if err != nil {
			return "", err
		}
		n := 0
		for _, a := range alarms.Alarms {
			if a.Alarm != etcdserverpb.AlarmType_NOSPACE {
				continue
			}
			if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprintf("alarms NOSPACE ended: %d", n), nil
	})
}

// step does one step and tells of it.
func (s *Store) step(ctx context.Context, told func(*ohmv1.StoreStep), step *ohmv1.StoreStep, do func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, slowStep)
	defer cancel()
	began := time.Now()
	detail, err := do(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w", step.Step, step.Member, s.failed(err))
	}
	step.Detail, step.Milliseconds = detail, time.Since(began).Milliseconds()
	told(step)
	return nil
}

var _ cellstate.Carer = (*Store)(nil)
