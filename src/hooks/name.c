/* SPDX-License-Identifier: MIT */
/*
 * getaddrinfo(). A new task calls the C library's function, which blocks that task's thread. The
 * caller waits for the new task, and can stop waiting.
 *
 * Up to SLOTS lookups begin immediately. A lookup that finds no free slot for SLOT_NS begins all
 * the same, up to MOST lookups, so names that hang delay others by no more than that. A task gives
 * its slot back before it calls sennit again, because a run may end during the lookup and abandon
 * the task with its thread. A semaphore would not outlive the run, so the slots are a counter that
 * waiting tasks check from time to time. The checks become rarer, so that tasks that wait because
 * of MOST names that hang cost little.
 *
 * Who owns a lookup: the caller and the task that looks the name up. The last of the two that
 * leaves frees it, with the addresses if the caller has not taken them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/channel.h>
#include <sennit/clock.h>
#include <sennit/task.h>

#include "hooks/call.h"

#define SLOTS 8
#define MOST 256
#define SLOT_NS INT64_C(50000000)
#define FIRST_PAUSE_NS INT64_C(1000000)
#define LAST_PAUSE_NS INT64_C(64000000)

/* Name service modules are foreign code; glibc's own take a few dozen KiB. */
#define STACK_SIZE ((size_t)256 << 10)

struct lookup {
	_Atomic int owners;
	sn_chan *done; /* has an element when the fields below are set */
	int error;     /* of getaddrinfo() */
	int system;    /* errno after it */
	struct addrinfo *found;
	const char *node, *service; /* point into text; or NULL */
	const struct addrinfo *hints;
	struct addrinfo kept;
	char text[];
};

static _Atomic int under_way;

/* In a child of fork() there are no lookups. */
static void forget_all(void)
{
	atomic_store(&under_way, 0);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(NULL, NULL, forget_all);
}

static void leave(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->owners, 1) > 1)
		return;
	if (lookup->found)
		freeaddrinfo(lookup->found);
	sn_chan_unref(lookup->done);
	free(lookup);
}

/* Waits for a slot, and counts this lookup as under way. */
static void take_slot(void)
{
	const int64_t patience = sn_now() + SLOT_NS;
	int64_t pause = FIRST_PAUSE_NS;
	int there = atomic_load(&under_way);

	for (;;) {
		const bool patient = sn_now() < patience;

		while (there < (patient ? SLOTS : MOST))
			if (atomic_compare_exchange_weak(&under_way, &there, there + 1))
				return;
		sn_sleep(pause);
		if (!patient && pause < LAST_PAUSE_NS)
			pause *= 2;
		there = atomic_load(&under_way);
	}
}

static int look_up(void *arg)
{
	struct lookup *lookup = arg;
	const char one = 1;

	take_slot();
	lookup->error =
		sn_real.getaddrinfo(lookup->node, lookup->service, lookup->hints, &lookup->found);
	lookup->system = sn_hook_errno();
	atomic_fetch_sub(&under_way, 1);
	if (lookup->error)
		lookup->found = NULL;
	(void)!sn_chan_try_send(lookup->done, &one);
	leave(lookup);
	return 0;
}

static const char *keep(char **at, const char *text)
{
	char *here = *at;

	if (!text)
		return NULL;
	*at = stpcpy(here, text) + 1;
	return here;
}

static struct lookup *make(const char *node, const char *service, const struct addrinfo *hints)
{
	const size_t size = (node ? strlen(node) + 1 : 0) + (service ? strlen(service) + 1 : 0);
	struct lookup *lookup = calloc(1, sizeof *lookup + size);
	char *at;

	if (!lookup)
		return NULL;
	if (sn_chan_new(&lookup->done, 1, 1) < 0) {
		free(lookup);
		return NULL;
	}
	at = lookup->text;
	lookup->node = keep(&at, node);
	lookup->service = keep(&at, service);
	if (hints) {
		lookup->kept = *hints;
		lookup->hints = &lookup->kept;
	}
	atomic_store(&lookup->owners, 1);
	return lookup;
}

/* Looks the name up on the caller's thread. A module of the name service may not park (database.c),
 * however little is expected to be asked. */
static int look_up_here(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	int error;

	sn_hook_hold(1);
	error = sn_real.getaddrinfo(node, service, hints, result);
	sn_hook_hold(-1);
	return error;
}

static bool is_number(const char *text)
{
	return !text || text[strspn(text, "0123456789")] == 0;
}

/* Whether the lookup asks no server. */
static bool is_quick(const char *node, const char *service, const struct addrinfo *hints)
{
	struct in6_addr address;

	if (!is_number(service))
		return false;
	return !node || (hints && (hints->ai_flags & AI_NUMERICHOST)) ||
	       inet_pton(AF_INET, node, &address) == 1 || inet_pton(AF_INET6, node, &address) == 1;
}

/* Looks the name up in another task. Returns PASS if that could not begin. */
static enum sn_hook_step ask(struct lookup *lookup, int *error, struct addrinfo **result)
{
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.name = "getaddrinfo", .stack_size = STACK_SIZE,
				  .flags = SN_TASK_UNHOOKED | SN_TASK_BLOCKS);
	char one;
	int err;

	atomic_store(&lookup->owners, 2);
	if (sn_spawn(NULL, look_up, lookup, &attr) < 0) {
		atomic_store(&lookup->owners, 1);
		return SN_HOOK_PASS;
	}
	sn_hook_leave_thread();
	err = sn_chan_recv(lookup->done, &one);
	sn_hook_back();
	if (err < 0) {
		const enum sn_hook_step step = sn_hook_ended(err, EAGAIN);

		*error = EAI_SYSTEM;
		return step;
	}
	*error = lookup->error;
	*result = lookup->found;
	lookup->found = NULL;
	sn_hook_fail(lookup->system);
	return SN_HOOK_AGAIN;
}

SN_HOOK(int, getaddrinfo,
	(const char *node, const char *service, const struct addrinfo *hints,
	 struct addrinfo **result))
{
	struct addrinfo *found = NULL;
	struct lookup *lookup;
	enum sn_hook_step step;
	int error = 0, before, err;

	if (!sn_hook_caller() || is_quick(node, service, hints) || !sn_hook_may_park())
		return look_up_here(node, service, hints, result);
	before = sn_hook_errno();
	lookup = make(node, service, hints);
	if (!lookup)
		return look_up_here(node, service, hints, result);
	step = ask(lookup, &error, &found);
	err = sn_hook_errno();
	leave(lookup);
	if (step == SN_HOOK_PASS)
		return look_up_here(node, service, hints, result);
	if (step == SN_HOOK_AGAIN && !error)
		*result = found;
	sn_hook_fail(error ? err : before);
	return error;
}
