package agent

import "golang.org/x/sys/unix"

// diskOf is how much of a path's disk is taken, in percent of what there is for everybody,
// rounded up, as df has it.
func diskOf(path string) (percent int, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	used := st.Blocks - st.Bfree
	if used+st.Bavail == 0 {
		return 0, nil
	}
	return int((used*100 + used + st.Bavail - 1) / (used + st.Bavail)), nil
}
