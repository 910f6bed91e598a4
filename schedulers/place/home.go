package place

import "github.com/ohmcell/ohm/schedulers"

// What a node outside the home share costs, in thousandths of a GPU. With a price, and
// not only when nothing at home fits, an instance leaves its share before it has to
// strand GPUs there. It is high between instances of one scheduler, whose tasks are alike, and
// lower between schedulers: one that kept its small tasks and another its large ones off half
// of the nodes would strand what is left between them.
//
// Measured on openb, what the instances decide in a round being unseen by the others, in the mean
// of rounds of 70 to 100 tasks: 95.53% of the GPUs and 0.035 conflicts per commit with eight
// instances of one scheduler, 95.47% and 0.070 with eight of three schedulers. One number for
// all instances, of whatever scheduler, with prices of 300 and more gave 0.16 for the latter;
// shares as large as a scheduler's part of the work, with the high price for all others, 94.8%
// and 0.09, as the work of one scheduler comes in bursts.
const (
	awayPrice  = 700 // in the part of another instance's share that this one takes first
	farPrice   = 1000
	acrossAway = 300 // the same between schedulers
	acrossFar  = 600
	rankPrice  = 50 // and so much for each other one whose part is taken sooner
)

// price is what a node costs an instance with a home share. The nodes are dealt to the
// schedulers in turn, and each scheduler's to its instances. Beyond its share, each has a part of
// the others' that it takes first, so that two of them do not meet on the same node.
func price(h schedulers.Home, i int) (cost float64) {
	of, all := max(1, h.Of), max(1, h.Schedulers)
	scheduler, i := i%all, i/all
	instance, deal := i%of, i/of
	if instance != h.Index {
		cost = ranked(awayPrice, farPrice, (deal+of-h.Index)%of)
	}
	if scheduler != h.Scheduler {
		others := (h.Scheduler - scheduler + all - 1) % all // in between
		cost += ranked(acrossAway, acrossFar, (others+deal/of)%(all-1))
	}
	return cost
}

func ranked(first, far float64, rank int) float64 {
	if rank == 0 {
		return first
	}
	return far + rankPrice*float64(rank-1)
}

// turn numbers the instances, those of all schedulers in turn.
func turn(h schedulers.Home) int { return h.Scheduler + max(1, h.Schedulers)*h.Index }
