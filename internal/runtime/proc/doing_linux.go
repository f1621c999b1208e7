package proc

// Doing is what a process does at this moment, in a few words; "" if that cannot
// be told.
func Doing(pid int) string {
	st, err := readStat(pid)
	if err != nil {
		return ""
	}
	return map[byte]string{
		'R': "running", 'S': "sleeping", 'D': "waiting for a device", 'I': "idle",
		'T': "stopped by a signal (state T)", 't': "stopped by a debugger (state t)",
		'Z': "ended, and not yet collected",
	}[st.state]
}
