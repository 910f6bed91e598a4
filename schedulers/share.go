package schedulers

import (
	"hash/fnv"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
)

// shares says which part of the work is this instance's, from who is registered. It is
// about efficiency only: two instances that both think a job theirs do no harm.
type shares struct {
	instances []string // of this scheduler, by name
	self      string
	home      Home
	member    bool // this instance is registered
}

func sharesOf(s *cellstate.Snapshot, scheduler, instance string) shares {
	sh := shares{self: instance}
	for row := range s.Schedulers() {
		if len(row.Instances) == 0 {
			continue
		}
		if row.Name == scheduler {
			sh.home.Scheduler, sh.home.Of = sh.home.Schedulers, len(row.Instances)
			for n, i := range row.Instances {
				sh.instances = append(sh.instances, i.GetInstance())
				if i.GetInstance() == instance {
					sh.member, sh.home.Index = true, n
				}
			}
		}
		sh.home.Schedulers++
	}
	return sh
}

// owns says whether a job is this instance's: rendezvous hashing, so that an instance
// that comes or goes moves only the jobs that it gains or loses. An instance that is not
// registered owns nothing.
func (sh *shares) owns(j cellstate.JobName) bool {
	if !sh.member {
		return false
	}
	best, most := "", uint64(0)
	for _, i := range sh.instances {
		if h := hash(i, j.Namespace, j.Name); best == "" || h > most {
			best, most = i, h
		}
	}
	return best == sh.self
}

// same says whether both give every job and node to the same instance.
func (sh *shares) same(o *shares) bool {
	return sh.member == o.member && sh.home == o.home && strings.Join(sh.instances, "/") == strings.Join(o.instances, "/")
}

// hash mixes strings into 64 even bits.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p)) // it never fails
		h.Write([]byte{0})
	}
	x := h.Sum64() // the high bits of FNV hardly see the last bytes: finish as splitmix64 does
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
