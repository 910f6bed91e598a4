package jobspec

import (
	"strings"

	"github.com/ohmcell/ohm/pkg/near"
)

// oneOf words a refusal of a value outside a closed list.
func oneOf(value string, list []string) string {
	message := "is not one of " + strings.Join(list, ", ")
	if n := near.Of(value, list); n != "" {
		message += "; did you mean " + n + "?"
	}
	return message
}
