package etcdstore

import (
	"github.com/ohmcell/ohm/cellstate"
)

// Writes that follow each other and begin with the same guards, as those of one job's
// tasks on many nodes do, are joined below one compare of these guards: a nested
// transaction whose operations are the writes without them. That is the same to the
// caller, since each of them fails if such a guard does, and a sixth of etcd's work is to
// compare.

// joinedPart is the part of the operations that the server allows along a path to which
// joined writes keep: their number, and each of them.
const joinedPart = 4

// joined is how many of the first writes are joined; 1: the first stands alone.
func (s *Store) joined(writes []cellstate.Write) int {
	if len(writes) < 2 {
		return 1
	}
	shared := shares(&writes[0], &writes[1])
	if shared == 0 {
		return 1
	}
	n, bytes := 0, 0
	for n < min(len(writes), s.cfg.MaxTxnOps/joinedPart) {
		w := &writes[n]
		bytes += estimate(writes[n : n+1])
		if shares(&writes[0], w) < shared || bytes > s.cfg.MaxRequestBytes/4 ||
			2*(len(w.Guards)+len(w.Fences)+len(w.Records)) > s.cfg.MaxTxnOps/joinedPart {
			break
		}
		if n > 0 && n+1 < len(writes) && shares(w, &writes[n+1]) > shared {
			break // the next ones have more in common with each other
		}
		n++
	}
	return max(n, 1)
}

// shares is how many guards two writes have in common, from the first on.
func shares(a, b *cellstate.Write) int {
	n := 0
	for n < min(len(a.Guards), len(b.Guards)) && a.Guards[n] == b.Guards[n] && !a.Guards[n].Delete {
		n++
	}
	return n
}

// appendWrites appends joined writes, of which the first is number i of the call, and notes
// their proofs. It returns how many operations that adds along the path.
func (s *Store) appendWrites(b []byte, writes []cellstate.Write, i int, proofs []key) (_ []byte, path int, err error) {
	if len(writes) == 1 {
		b, path, proofs[0], err = s.appendWrite(b, &writes[0], 0, i)
		return b, path, err
	}
	shared := shares(&writes[0], &writes[1])
	b, op := begin(b, txnSuccess)
	b, txn := begin(b, opTxn)
	for _, g := range writes[0].Guards[:shared] {
		b = s.guard(g).append(b)
	}
	for k := range writes {
		var deeper int
		if b, deeper, proofs[k], err = s.appendWrite(b, &writes[k], shared, i+k); err != nil {
			return b, 0, err
		}
		path = max(path, deeper)
	}
	end(b, txn)
	end(b, op)
	return b, max(shared, len(writes)) + path, nil
}
