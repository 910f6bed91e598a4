package hack

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/pkg/jobspec"
)

func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/cli/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no page %s (%v)", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// deadLinks are the links of a page to files that are not there.
func deadLinks(page, text string) (dead []string) {
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
			dead = append(dead, m[1])
		}
	}
	return dead
}

// jobsOf are the job files that a page shows, and what is wrong with each.
func jobsOf(page, text string) (jobs int, faults []string) {
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^job:`).MatchString(m[1]) {
			continue
		}
		jobs++
		if _, err := jobspec.Parse(page, []byte(m[1])); err != nil {
			faults = append(faults, err.Error())
		}
	}
	return jobs, faults
}

// TestDocuments: links lead somewhere, and the job files that pages show are accepted.
func TestDocuments(t *testing.T) {
	jobs := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range deadLinks(page, string(text)) {
			t.Errorf("%s: there is no %s", page, link)
		}
		n, faults := jobsOf(page, string(text))
		jobs += n
		for _, f := range faults {
			t.Errorf("%s: a job file on the page is refused: %s", page, f)
		}
	}
	if jobs == 0 {
		t.Error("no page shows a job file")
	}
}

func TestDocumentsCanFail(t *testing.T) {
	page := filepath.Join("..", "README.md")
	if dead := deadLinks(page, "[a](LICENSE) [b](docs/none.md#x) [c](https://example.org)"); strings.Join(dead, " ") != "docs/none.md" {
		t.Errorf("dead links: %v", dead)
	}
	n, faults := jobsOf(page, "```yaml\njob: a\nkind: bulk\n```\n```yaml\nother: 1\n```\n")
	if n != 1 || len(faults) != 1 || !strings.Contains(faults[0], "bulk") {
		t.Errorf("%d jobs, faults %v", n, faults)
	}
}
