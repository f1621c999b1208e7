package ready

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// controlSize is enough for the credentials and the 253 descriptors that a message can carry.
var controlSize = unix.CmsgSpace(unix.SizeofUcred) + unix.CmsgSpace(253*4)

// passCredentials asks the kernel to add the sender to each message.
func passCredentials(c *net.UnixConn) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := rc.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}); err != nil {
		return err
	}
	return serr
}

// receiveNow receives a queued message. The methods of net.UnixConn would fail because the read
// deadline has expired.
func receiveNow(c *net.UnixConn, msg, control []byte) (size, oobn int, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	cerr := rc.Control(func(fd uintptr) {
		for {
			size, oobn, _, _, err = unix.Recvmsg(int(fd), msg, control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return size, oobn, errors.Join(cerr, err)
}

// sender returns the sender's pid, which the kernel guarantees, from the control data of a
// message. It is 0 if there is none. Descriptors are closed, which tells sd_notify_barrier(3)
// that the message was processed.
func sender(control []byte) (pid int, known bool) {
	msgs, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, true
	}
	for _, m := range msgs {
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			pid = int(cred.Pid)
		}
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
	return pid, true
}
