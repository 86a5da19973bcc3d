/* SPDX-License-Identifier: MIT */
/*
 * The C library's calls that ask the name service: gethostbyname(), getpwnam() and the like.
 *
 * The modules that answer (nsswitch.conf(5)) are separate libraries. They make calls that are
 * hooked, while the C library holds locks and keeps the addresses of the thread's errno and
 * h_errno. Therefore these calls count as a lock that the task holds, and all hooked calls inside
 * them are passed through. getaddrinfo() is in name.c.
 */
#include <grp.h>
#include <netdb.h>
#include <pwd.h>

#include "hooks/call.h"

#define ASKS(result, name, parameters, arguments) \
	SN_HOOK(result, name, parameters)         \
	{                                         \
		result answer;                    \
                                                  \
		sn_hook_hold(1);                  \
		answer = sn_real.name arguments;  \
		sn_hook_hold(-1);                 \
		return answer;                    \
	}

SN_REAL_DATABASES(ASKS)
