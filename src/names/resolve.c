/* SPDX-License-Identifier: MIT */
/*
 * Names and addresses: which question is asked, which needs no lookup, and the form of the answer.
 * lookup.h has the threads and the waits.
 *
 * An answer is one piece of memory, which is copied for each task that asked. A list of addresses
 * has a pointer to them, which is set last, in the copy.
 */
#include "names/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "names/lookup.h"
#include "sched/runtime.h"
#include "sched/thread.h"

#define FAMILIES (SN_RESOLVE_IPV4 | SN_RESOLVE_IPV6)
#define FLAGS (FAMILIES | SN_RESOLVE_NUMERIC | SN_RESOLVE_PASSIVE | SN_RESOLVE_UDP)

/* The keys of questions. Unused bytes are zero, because keys are compared as bytes. */
struct forward {
	uint32_t flags;
	struct sn_host_port parts;
};

struct reverse {
	socklen_t length;
	struct sockaddr_storage address;
};

/* ---- addresses of a name ---- */

/* The addresses follow the structure in the same piece of memory. */
static void set_addresses(sn_resolved *resolved)
{
	resolved->addresses = (const struct sn_resolved_address *)(resolved + 1);
}

_Static_assert(sizeof(sn_resolved) % _Alignof(struct sn_resolved_address) == 0,
	       "the addresses follow");

static int take_list(void **answer, size_t *size, const struct addrinfo *list)
{
	sn_resolved *resolved;
	struct sn_resolved_address *to;
	size_t count = 0;

	for (const struct addrinfo *info = list; info; info = info->ai_next)
		count += info->ai_addrlen <= sizeof to->address;
	if (count == 0)
		return -EADDRNOTAVAIL;
	*size = sizeof *resolved + count * sizeof *to;
	resolved = calloc(1, *size);
	if (!resolved)
		return -ENOMEM;
	resolved->count = count;
	to = (struct sn_resolved_address *)(resolved + 1);
	for (const struct addrinfo *info = list; info; info = info->ai_next)
		if (info->ai_addrlen <= sizeof to->address) {
			memcpy(&to->address, info->ai_addr, info->ai_addrlen);
			to++->length = info->ai_addrlen;
		}
	*answer = resolved;
	return 0;
}

/* The function of a question for the addresses of a name (struct sn_question). */
static int answer_forward(const void *key, void **answer, size_t *size)
{
	const struct forward *forward = key;
	const uint32_t flags = forward->flags;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int err;

	if ((flags & FAMILIES) == SN_RESOLVE_IPV4)
		hints.ai_family = AF_INET;
	if ((flags & FAMILIES) == SN_RESOLVE_IPV6)
		hints.ai_family = AF_INET6;
	if (flags & SN_RESOLVE_UDP)
		hints.ai_socktype = SOCK_DGRAM;
	if (flags & SN_RESOLVE_PASSIVE)
		hints.ai_flags |= AI_PASSIVE;
	err = sn_address_look_up(&list, &forward->parts, &hints);
	if (err < 0)
		return err;
	err = take_list(answer, size, list);
	freeaddrinfo(list);
	return err;
}

/* ---- numbers ---- */

static bool is_wanted(const struct sn_resolved_address *found, uint32_t flags)
{
	const unsigned families = flags & FAMILIES;
	const unsigned its =
		found->address.ss_family == AF_INET ? SN_RESOLVE_IPV4 : SN_RESOLVE_IPV6;

	return families == 0 || (families & its);
}

/* Reads numeric parts into found[], which has room for two addresses. Returns how many there are,
 * or an error: -ENOENT for a host that may be a name. */
static int read_numbers(struct sn_resolved_address *found, const struct sn_host_port *parts,
			uint32_t flags)
{
	static const char *const any[] = {"::", "0.0.0.0"};
	struct sn_host_port each = *parts;
	int count = 0, length = 0;

	for (int i = 0; i < 2; i++) {
		if (!parts->host[0])
			strcpy(each.host, any[i]);
		else if (i > 0)
			break;
		length = sn_address_number(&found[count].address, &each);
		if (length < 0)
			return length;
		found[count].length = (socklen_t)length;
		count += is_wanted(&found[count], flags);
	}
	return count > 0 ? count : -EADDRNOTAVAIL;
}

static int take_numbers(sn_resolved **resolved, const struct sn_host_port *parts, uint32_t flags)
{
	struct sn_resolved_address found[2];
	int count = read_numbers(found, parts, flags);

	if (count < 0)
		return count;
	*resolved = malloc(sizeof **resolved + (size_t)count * sizeof found[0]);
	if (!*resolved)
		return -ENOMEM;
	(*resolved)->count = (size_t)count;
	memcpy(*resolved + 1, found, (size_t)count * sizeof found[0]);
	set_addresses(*resolved);
	return 0;
}

int sn_resolve_parts(sn_resolved **resolved, const struct sn_host_port *parts, uint32_t flags,
		     int64_t deadline)
{
	struct forward key;
	const struct sn_question question = {answer_forward, &key, sizeof key};
	void *answer;
	size_t size;
	int err;

	if (!parts->host[0] && !(flags & SN_RESOLVE_PASSIVE))
		return -EINVAL;
	err = take_numbers(resolved, parts, flags);
	if (err != -ENOENT || (flags & SN_RESOLVE_NUMERIC))
		return err;
	/* Zeroes the key's padding and the bytes after its strings, too. */
	memset(&key, 0, sizeof key);
	key.flags = flags;
	strcpy(key.parts.host, parts->host);
	strcpy(key.parts.service, parts->service);
	err = sn_lookup(&question, deadline, &answer, &size);
	if (err < 0)
		return err;
	*resolved = answer;
	set_addresses(*resolved);
	return 0;
}

int sn_resolve_text(sn_resolved **resolved, const char *text, uint32_t flags, int64_t deadline)
{
	struct sn_host_port parts;

	if (sn_address_split(&parts, text) < 0)
		return -EINVAL;
	return sn_resolve_parts(resolved, &parts, flags, deadline);
}

int sn_resolve(sn_resolved **resolved, const char *host, const char *service, uint32_t flags,
	       int64_t deadline)
{
	struct sn_host_port parts;
	int err;

	if (!resolved || (flags & ~FLAGS))
		return -EINVAL;
	if (sn_address_join(&parts, host ? host : "", service ? service : "0") < 0)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = sn_resolve_parts(resolved, &parts, flags, deadline);
	sn_runtime_leave();
	return err;
}

void sn_resolved_free(sn_resolved *resolved)
{
	free(resolved);
}

/* ---- the name of an address ---- */

/* The function of a question for the name of an address. */
static int answer_reverse(const void *key, void **answer, size_t *size)
{
	const struct reverse *reverse = key;
	char name[SN_NAME_MAX];
	int err = sn_address_name(&reverse->address, reverse->length, name, sizeof name);

	if (err < 0)
		return err;
	*size = strlen(name) + 1;
	*answer = strdup(name);
	return *answer ? 0 : -ENOMEM;
}

/* Makes the key from the parts of the address that a lookup uses: not the port, for example. */
static int make_reverse(struct reverse *key, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&key->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&key->address;

	memset(key, 0, sizeof *key);
	if (length < (socklen_t)sizeof address->sa_family)
		return -EINVAL;
	if (address->sa_family == AF_INET)
		key->length = sizeof *v4;
	else if (address->sa_family == AF_INET6)
		key->length = sizeof *v6;
	if (key->length == 0 || length < key->length)
		return -EINVAL;
	memcpy(&key->address, address, key->length);
	if (address->sa_family == AF_INET) {
		v4->sin_port = 0;
		memset(v4->sin_zero, 0, sizeof v4->sin_zero);
	} else {
		v6->sin6_port = 0;
		v6->sin6_flowinfo = 0;
	}
	return 0;
}

static int take_name(char *buf, size_t size, void *answer, size_t answer_size)
{
	const bool fits = answer_size <= size;

	if (fits)
		memcpy(buf, answer, answer_size);
	free(answer);
	return fits ? (int)answer_size - 1 : -ENOSPC;
}

int sn_resolve_name(char *buf, size_t size, const struct sockaddr *address, socklen_t length,
		    int64_t deadline)
{
	struct reverse key;
	const struct sn_question question = {answer_reverse, &key, sizeof key};
	size_t answer_size;
	void *answer;
	int err;

	if (!buf || !address || make_reverse(&key, address, length) < 0)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = sn_lookup(&question, deadline, &answer, &answer_size);
	sn_runtime_leave();
	return err < 0 ? err : take_name(buf, size, answer, answer_size);
}
