/* SPDX-License-Identifier: MIT */
/*
 * SRV records (RFC 2782): which hosts offer a service.
 *
 * The C library's resolver makes the query, on the threads of lookup.h and within their limits,
 * like for any other name. Rejected: c-ares, which needs no thread. It would be libsennit's only
 * dependency, for one call, and would read the configuration of the system's resolver in its own
 * way.
 *
 * The message comes from the network, so every read is checked against its end. A shared answer has
 * the records in the order of the message; each caller puts its copy in an order of its own, which
 * is partly random.
 */
#include <sennit/resolve.h>

#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/clock.h>

#include "names/address.h"
#include "names/lookup.h"
#include "sched/runtime.h"

#define MOST_MESSAGE 65535
#define HEADER_SIZE 12
/* After the name: type, class, time to live, length. */
#define RECORD_SIZE 10
/* Before the target: priority, weight, port. */
#define FIXED_SIZE 6

_Static_assert(SN_HOST_MAX == sizeof(((struct sn_srv *)0)->target), "a target is a host");
_Static_assert(sizeof(sn_srv_list) % _Alignof(struct sn_srv) == 0, "the records follow");

/* The key of the question. The bytes after the name are zero. */
struct key {
	char name[SN_HOST_MAX];
};

/* ---- the message ---- */

struct message {
	const unsigned char *start, *at, *end;
};

static unsigned read_16(const unsigned char *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static bool skip(struct message *message, size_t size)
{
	if ((size_t)(message->end - message->at) < size)
		return false;
	message->at += size;
	return true;
}

/* Skips a name and the `size` bytes after it. */
static bool skip_named(struct message *message, size_t size)
{
	const int length = dn_skipname(message->at, message->end);

	return length > 0 && skip(message, (size_t)length) && skip(message, size);
}

/*
 * Whether a program can safely use it as a host's name. It is empty for ".". A label may have any
 * bytes, and a program may put the name into a log, a page or a command line. The system's resolver
 * checks the names of addresses in the same way.
 */
static bool is_harmless(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.";

	return *name != '-' && !name[strspn(name, allowed)];
}

/* Reads the record's data into *srv. */
static bool read_srv(const struct message *message, const unsigned char *data, size_t size,
		     struct sn_srv *srv)
{
	if (size <= FIXED_SIZE)
		return false;
	srv->priority = (uint16_t)read_16(data);
	srv->weight = (uint16_t)read_16(data + 2);
	srv->port = (uint16_t)read_16(data + 4);
	return dn_expand(message->start, data + size, data + FIXED_SIZE, srv->target,
			 sizeof srv->target) > 0 &&
	       is_harmless(srv->target);
}

/* Reads all records into srv[]. Returns how many there are, or -EIO for a malformed message. */
static int read_records(struct message *message, struct sn_srv *srv)
{
	unsigned questions, answers;
	int count = 0;

	if (!skip(message, HEADER_SIZE))
		return -EIO;
	questions = read_16(message->start + 4);
	answers = read_16(message->start + 6);
	while (questions-- > 0)
		if (!skip_named(message, 4))
			return -EIO;
	while (answers-- > 0) {
		const unsigned char *fixed, *data;
		unsigned size;

		if (!skip_named(message, RECORD_SIZE))
			return -EIO;
		fixed = message->at - RECORD_SIZE;
		data = message->at;
		size = read_16(fixed + 8);
		if (!skip(message, size))
			return -EIO;
		if (read_16(fixed) != ns_t_srv || read_16(fixed + 2) != ns_c_in)
			continue;
		if (!read_srv(message, data, size, &srv[count++]))
			return -EIO;
	}
	return count;
}

/* Makes a list of the records that have a target. "." as the target means that there is no such
 * service. */
static int take_records(void **answer, size_t *size, struct message *message)
{
	/* A record with its name is larger than this divisor. */
	const size_t most = (size_t)(message->end - message->start) / (RECORD_SIZE + FIXED_SIZE);
	sn_srv_list *list;
	struct sn_srv *srv;
	int count;

	*size = sizeof *list + (most + 1) * sizeof *srv;
	list = calloc(1, *size);
	if (!list)
		return -ENOMEM;
	srv = (struct sn_srv *)(list + 1);
	count = read_records(message, srv);
	for (int i = 0; i < count; i++)
		if (srv[i].target[0])
			srv[list->count++] = srv[i];
	if (list->count == 0) {
		free(list);
		return count < 0 ? count : count > 0 ? -EADDRNOTAVAIL : -ENOENT;
	}
	*size = sizeof *list + list->count * sizeof *srv;
	*answer = list;
	return 0;
}

/* ---- the question ---- */

#if SENNIT_HAS_RESOLVER
/* The negative errno for an error of the resolver, before whose call errno was set to 0. */
static int errno_of_resolver(void)
{
	const int shortage = sn_address_shortage();

	if (shortage < 0)
		return shortage;
	switch (h_errno) {
	case TRY_AGAIN:
		return -EAGAIN;
	case HOST_NOT_FOUND:
	case NO_DATA:
		return -ENOENT;
	default:
		return -EIO;
	}
}

/* The function of the question. */
static int answer_srv(const void *key, void **answer, size_t *size)
{
	const struct key *its = key;
	unsigned char *bytes = malloc(MOST_MESSAGE);
	struct message message = {bytes, bytes, bytes};
	int length, err;

	if (!bytes)
		return -ENOMEM;
	errno = 0;
	length = res_query(its->name, ns_c_in, ns_t_srv, bytes, MOST_MESSAGE);
	if (length < 0) {
		err = errno_of_resolver();
	} else {
		message.end += length < MOST_MESSAGE ? length : MOST_MESSAGE;
		err = take_records(answer, size, &message);
	}
	free(bytes);
	return err;
}
#else
static int answer_srv(const void *key, void **answer, size_t *size)
{
	(void)key;
	(void)answer;
	(void)size;
	return -ENOSYS;
}
#endif

/* ---- the order ---- */

/* Orders by priority, and within a priority the records of weight 0 first, as RFC 2782 asks. */
static int compare(const void *a, const void *b)
{
	const struct sn_srv *first = a, *second = b;

	if (first->priority != second->priority)
		return first->priority < second->priority ? -1 : 1;
	return (first->weight != 0) - (second->weight != 0);
}

/* A number from 0 to most. The bias of the remainder is less than 1 in 2^32 for sums of weights. */
static uint32_t random_up_to(uint32_t most)
{
	uint64_t value = 0;

	if (sn_getrandom(&value, sizeof value, 0) < 0)
		value = (uint64_t)sn_now() * 0x9e3779b97f4a7c15u >> 16;
	return (uint32_t)(value % ((uint64_t)most + 1));
}

/* Chooses the first of some records of one priority. A larger weight makes a record more likely. */
static void choose_first(struct sn_srv *srv, size_t count)
{
	uint32_t sum = 0, chosen;
	struct sn_srv first;
	size_t i;

	for (i = 0; i < count; i++)
		sum += srv[i].weight;
	chosen = random_up_to(sum);
	sum = 0;
	for (i = 0; i < count - 1; i++) {
		sum += srv[i].weight;
		if (sum >= chosen)
			break;
	}
	first = srv[i];
	memmove(&srv[1], &srv[0], i * sizeof *srv);
	srv[0] = first;
}

static void put_in_order(struct sn_srv *srv, size_t count)
{
	qsort(srv, count, sizeof *srv, compare);
	for (size_t i = 0; i < count; i++) {
		size_t same = 1;

		while (i + same < count && srv[i + same].priority == srv[i].priority)
			same++;
		if (same > 1)
			choose_first(&srv[i], same);
	}
}

/* ---- the call ---- */

int sn_resolve_srv(sn_srv_list **list, const char *name, int64_t deadline)
{
	struct key key = {0};
	const struct sn_question question = {answer_srv, &key, sizeof key};
	struct sn_srv *records;
	void *answer;
	size_t size;
	int err;

	if (!list || !name || !*name || strlen(name) >= sizeof key.name ||
	    !sn_address_host_valid(name))
		return -EINVAL;
	strcpy(key.name, name);
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = SENNIT_HAS_RESOLVER ? sn_lookup(&question, deadline, &answer, &size) : -ENOSYS;
	sn_runtime_leave();
	if (err < 0)
		return err;
	*list = answer;
	records = (struct sn_srv *)(*list + 1);
	put_in_order(records, (*list)->count);
	(*list)->records = records;
	return 0;
}

void sn_srv_list_free(sn_srv_list *list)
{
	free(list);
}
