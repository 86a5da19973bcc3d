// SPDX-License-Identifier: MIT
//
// System calls that the kernel does not have, or that a sandbox refuses, by a seccomp filter. The
// filter cannot be removed again, so a test uses it in a child process.
#ifndef SENNIT_TESTS_SUPPORT_REFUSED_H
#define SENNIT_TESTS_SUPPORT_REFUSED_H

#include <cstddef>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace test
{

// A call that fails with this error. With bits: only if its first argument has one of them.
struct Refusal {
	long call;
	int error;
	unsigned bits = 0;
};

// Refuses these calls in all threads of the process from now on, or without the flag in the calling
// thread. Returns false where there are no filters.
inline bool refuse(const std::vector<Refusal> &refusals, unsigned flags = SECCOMP_FILTER_FLAG_TSYNC)
{
	const unsigned number = offsetof(seccomp_data, nr), first = offsetof(seccomp_data, args);
	std::vector<sock_filter> code;

	for (const Refusal &each : refusals) {
		const unsigned answer = SECCOMP_RET_ERRNO | unsigned(each.error);

		code.push_back(sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number));
		if (each.bits) {
			code.push_back(sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    unsigned(each.call), 0, 3));
			code.push_back(sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first));
			code.push_back(
				sock_filter BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, each.bits, 0, 1));
		} else {
			code.push_back(sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    unsigned(each.call), 0, 1));
		}
		code.push_back(sock_filter BPF_STMT(BPF_RET | BPF_K, answer));
	}
	code.push_back(sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

} // namespace test

#endif
