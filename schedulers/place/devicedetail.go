package place

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
)

// deviceDetail tells people what a candidate has free of the GPUs that a request asks for,
// and of each device that was seen why it is not used.
func deviceDetail(q *Request, c *Candidate, free int64) string {
	kind := ""
	if len(q.Models) > 0 {
		kind = " (" + strings.Join(q.Models, " or ") + ")"
	}
	if q.SameModel {
		kind += " of one model"
	}
	if q.Memory > 0 {
		kind += fmt.Sprintf(" with %s of memory", resource.FormatBytes(q.Memory))
	}
	node := c.Node.Name
	switch {
	case q.ShareBytes > 0:
		return fmt.Sprintf("largest free: %s of a GPU%s on node %s, where %s of its memory are wanted%s", resource.FormatShare(int32(free)), kind, node, resource.FormatBytes(q.ShareBytes), seenDevices(q, c)) + sick(c)
	case q.Share < wholeGPU:
		return fmt.Sprintf("largest free: %s of %s of one GPU%s on node %s%s", resource.FormatShare(int32(free)), resource.FormatShare(q.Share), kind, node, seenDevices(q, c)) + sick(c)
	}
	return fmt.Sprintf("most free: %d of %d whole GPUs%s on node %s%s", free, q.GPUs, kind, node, seenDevices(q, c)) + sick(c)
}

// seenDevices counts the devices of a candidate by model and by what keeps them from a
// request: ": 1×A, 2×B in use". Where the task would have had its devices, were nothing in use, it
// also says how many would be in use then.
func seenDevices(q *Request, c *Candidate) string {
	var order []string
	counts := map[string]int{}
	able, used := 0, 0
	for i := range c.GPUs {
		g, d := &c.GPUs[i], c.Node.Facts.GetGpus()[i]
		text, wanted := g.Model, q.on(g)
		_, why := cellstate.ShareOn(d, q.gpus)
		switch {
		case why != "":
			text += " " + why
		case d.GetHealth() != cellstate.DeviceHealthy:
			text += " not usable"
		case g.Free <= 0:
			text += " in use"
		case g.Free < wanted:
			text += fmt.Sprintf(" with %s free", resource.FormatShare(g.Free))
		}
		if why == "" {
			able++
			if g.Free < wanted {
				used++
			}
		}
		if counts[text]++; counts[text] == 1 {
			order = append(order, text)
		}
	}
	if len(order) == 0 {
		return ""
	}
	for i, text := range order {
		order[i] = fmt.Sprintf("%d×%s", counts[text], text)
	}
	seen := ": " + strings.Join(order, ", ")
	if q.GPUs > 1 && able >= q.GPUs && used > 0 && !q.SameModel {
		seen += fmt.Sprintf("; it would be %d of %d", used+q.GPUs, able)
	}
	return seen
}

// sick says of a candidate's GPUs why they take nothing, of the first one that does not.
func sick(c *Candidate) string {
	for _, d := range c.Node.Facts.GetGpus() {
		if d.GetHealth() != cellstate.DeviceHealthy {
			return fmt.Sprintf("; %d of %d not usable, such as %s: %s", c.sick, len(c.GPUs), d.GetId(), cellstate.HealthText(d))
		}
	}
	return ""
}
