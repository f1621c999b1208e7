#include "textflag.h"

// The kernel leaves argc at 0(SP), argv[0] at 8(SP), argv[1] at 16(SP),
// argv[2] at 24(SP).
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVQ SP, BX
	MOVQ BX, R13
	SUBQ $64, R13         // room for seconds, nanoseconds, pid

	MOVQ $228, AX         // clock_gettime(CLOCK_MONOTONIC, room)
	MOVQ $1, DI
	MOVQ R13, SI
	SYSCALL

	MOVQ $39, AX          // getpid()
	SYSCALL
	MOVQ AX, 16(R13)

	MOVQ $2, AX           // open(argv[1], O_WRONLY)
	MOVQ 16(BX), DI
	MOVQ $1, SI
	MOVQ $0, DX
	SYSCALL

	MOVQ AX, DI           // write(fd, room, 24)
	MOVQ $1, AX
	MOVQ R13, SI
	MOVQ $24, DX
	SYSCALL
	MOVQ $2, DI           // exit code if that failed
	CMPQ AX, $24
	JNE  exit

	MOVQ $37, AX          // alarm(300)
	MOVQ $300, DI
	SYSCALL

	MOVQ 24(BX), DI
	CMPQ DI, $0
	JEQ  forever

	MOVQ $2, AX           // open(argv[2], O_RDWR)
	MOVQ $2, SI
	MOVQ $0, DX
	SYSCALL
	MOVQ AX, DI           // read(fd, room, 1)
	MOVQ $0, AX
	MOVQ R13, SI
	MOVQ $1, DX
	SYSCALL
	MOVQ $1, DI
	JMP  exit

forever:
	MOVQ $34, AX          // pause()
	SYSCALL
	MOVQ $0, DI

exit:
	MOVQ $60, AX          // exit(DI)
	SYSCALL
	HLT
