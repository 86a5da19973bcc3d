/* SPDX-License-Identifier: MIT */
/*
 * The C library's functions that ask the name service: gethostbyname(), getpwnam() and the like.
 *
 * The modules that answer (nsswitch.conf(5)) are separate libraries. They make calls that are
 * hooked, while the C library holds locks and keeps the addresses of the thread's errno and
 * h_errno. Therefore these functions count as a lock that the task holds, and all hooked calls
 * inside them are passed through. database.h says which they are. getaddrinfo() is in name.c.
 */
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
#define ASKS_VOID(result, name, parameters, arguments) \
	SN_HOOK(result, name, parameters)              \
	{                                              \
		sn_hook_hold(1);                       \
		sn_real.name arguments;                \
		sn_hook_hold(-1);                      \
	}

SN_REAL_DATABASES(ASKS)
SN_REAL_DATABASE_VOIDS(ASKS_VOID)
