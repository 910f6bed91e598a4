package place

import "github.com/ohmcell/ohm/schedulers"

// What a node outside the home share costs, in thousandths of a GPU. With a price, and
// not only when nothing at home fits, an instance leaves its share before it has to
// strand GPUs there. It is high between instances of one scheduler, whose tasks are alike, and
// lower between schedulers: one that kept its small tasks and another its large ones off half
// of the nodes would strand what is left between them.
//
// Measured on openb, what the instances decide in a round being unseen by the others: 95.57% of
// the GPUs and 0.033 conflicts per commit with eight instances of one scheduler, 100
// tasks a round; 95.51% and 0.048 with three schedulers, 64 a round; 95.34% and 0.099 with eight
// instances of three schedulers, 100 a round, where one price of 300 and 600 between all
// instances gave 95.44% and 0.289, and one of 700 and 1,000 gave 94.29% and 0.171.
const (
	awayPrice  = 700 // in the part of another instance's share that this one takes first
	farPrice   = 1000
	rankPrice  = 50 // and so much for each other instance whose part is taken sooner
	acrossAway = 300
	acrossFar  = 600
)

// price is what a node costs an instance with a home share. Beyond it, each instance has a
// part of the others' that it takes first, so that two of them do not meet on the same node.
func price(h schedulers.Home, i int) (cost float64) {
	of, all := max(1, h.Of), max(1, h.Schedulers)
	if own := i % of; own != h.Index {
		rank := (i/of/all/all%of + of - h.Index) % of
		cost = farPrice + rankPrice*float64(rank)
		if rank == 0 {
			cost = awayPrice
		}
	}
	switch i /= of; {
	case i%all == h.Scheduler:
		return cost
	case i/all%all == h.Scheduler:
		return cost + acrossAway
	}
	return cost + acrossFar
}
