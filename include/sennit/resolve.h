/* SPDX-License-Identifier: MIT */
/*
 * Names and addresses, by the system's resolver: what /etc/nsswitch.conf says, so /etc/hosts, DNS
 * and whatever else the machine is set up for.
 *
 * A task that asks parks, and its deadline and its scope hold throughout: the resolver itself,
 * which cannot be interrupted, runs on a thread of its own. Tasks that ask the same question at the
 * same time share one lookup, each with its own deadline. Nothing is cached: a question that comes
 * after the answer is looked up again. A task that joins a lookup which hangs waits for that
 * lookup, because another one of the same name would hang as well.
 *
 * A name that hangs occupies one thread until the resolver gives up, and does not delay tasks that
 * ask for other names. Sixteen lookups begin immediately. One that has taken 50 ms does not count
 * any more, and lets another begin, up to 256 threads. While 256 different names hang, further
 * lookups wait for one of them to end, and their callers until their deadlines. Only where the
 * system refuses a thread, and none is left from earlier lookups, does the caller's own thread wait
 * for the resolver.
 *
 * Threads outside the runtime: sn_resolved_free() and sn_srv_list_free(); the others return
 * -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_RESOLVE_H
#define SENNIT_RESOLVE_H

#include <sys/socket.h>

#include <sennit/base.h>

SN_BEGIN

/* An address, as connect(2), bind(2) and sendto(2) take it, with its port. */
struct sn_resolved_address {
	struct sockaddr_storage address; /* passed as a struct sockaddr * */
	socklen_t length;                /* of the used part of address */
};

/* The addresses of a name, in the order in which they should be tried (RFC 6724). */
typedef struct sn_resolved {
	size_t count;                                /* at least 1 */
	const struct sn_resolved_address *addresses; /* freed with the list */
} sn_resolved;

/* In flags of sn_resolve(). One of the two limits the addresses to its family; with both or
 * neither, both families are looked up. */
#define SN_RESOLVE_IPV4 1u
#define SN_RESOLVE_IPV6 2u
/* Host and service are numbers. Anything else is -ENOENT, and the call does not park. */
#define SN_RESOLVE_NUMERIC 4u
/* For listening: the host may be NULL or "", which is any address of the machine. */
#define SN_RESOLVE_PASSIVE 8u
/* The service is one of UDP; without it, of TCP. */
#define SN_RESOLVE_UDP 16u

/*
 * Looks up the addresses of a host. host: a name, or an address such as "127.0.0.1", "::1" or
 * "fe80::1%eth0", without brackets. service: a port, a service's name, or NULL for port 0. The
 * caller owns *resolved and frees it with sn_resolved_free(). Numbers are answered immediately, and
 * take no thread, whatever the deadline. Otherwise the call may park.
 *
 * IPv4 numbers are read as by the system's resolver (inet_aton(3)), also in fewer parts,
 * hexadecimal or octal: "127.1" is 127.0.0.1, and "010.0.0.1" is 8.0.0.1. Other programs may read
 * such text differently, so do not pass on what one of them has judged. sn_address_parse()
 * (address.h) takes four decimal parts only.
 *
 * Errors: -EINVAL for a host or service that is malformed or too long, and for unknown flags;
 * -ENOENT when the name or the service is unknown; -EADDRNOTAVAIL when the name exists but has no
 * address, or none of the wanted family (-ENOENT with musl 1.2.3, which does not tell them apart);
 * -EAGAIN when the name service failed for now: no server answers, or none can; -EIO when it failed
 * for good; -ETIMEDOUT past the deadline; -ECANCELED or another reason, when the task's scope is
 * cancelled (scope.h); -EMFILE or -ENFILE when the name service cannot be asked because descriptors
 * have run out; -ENOMEM; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_resolve(sn_resolved **resolved, const char *host, const char *service,
				      uint32_t flags, int64_t deadline);

/* Frees what sn_resolve() gave. Any thread; does nothing with NULL. */
SN_API void sn_resolved_free(sn_resolved *resolved);

/*
 * Looks up the name of an address (its port does not matter) and writes it into buf; a size of
 * SN_NAME_MAX is always enough. Returns its length. What the name service says is not proven: the
 * owner of an address chooses its name. May park.
 * Errors: -ENOENT when the address has no name; -EINVAL for an address that is neither IPv4 nor
 * IPv6, or shorter than its family's; -ENOSPC when buf is too small; otherwise as sn_resolve().
 */
SN_API int sn_resolve_name(char *buf, size_t size, const struct sockaddr *address, socklen_t length,
			   int64_t deadline);

/* The most room that a name needs, with its terminating zero. */
#define SN_NAME_MAX 1025

/* A host that offers a service: an SRV record (RFC 2782). */
struct sn_srv {
	uint16_t priority; /* the lower are to be tried first */
	uint16_t weight;   /* among those of one priority: how often it should be chosen */
	uint16_t port;     /* of that host; in the machine's byte order */
	char target[256];  /* the host's name: not empty; letters, digits, '-', '_' and '.' */
};

/* The hosts of a service, in the order in which they should be tried. */
typedef struct sn_srv_list {
	size_t count;                 /* at least 1 */
	const struct sn_srv *records; /* freed with the list */
} sn_srv_list;

/*
 * Looks up the SRV records of a name such as "_xmpp-client._tcp.example.org", which is taken as it
 * is: no domain is appended. They are ordered by priority, and within a priority at random by their
 * weights; each call draws again. This asks DNS only, by the servers in /etc/resolv.conf. The
 * caller owns *list and frees it with sn_srv_list_free(). May park.
 * Errors: -EINVAL for a name that is empty, too long, or has blanks or control characters;
 * -ENOENT when there are no such records; -EADDRNOTAVAIL when a record says that the service is
 * not offered; -EIO also when the answer is malformed, or a target cannot be a host's name;
 * -ENOSYS where the C library has no resolver to ask (glibc before 2.34); otherwise as
 * sn_resolve().
 */
SN_API SN_CHECK_RESULT int sn_resolve_srv(sn_srv_list **list, const char *name, int64_t deadline);

/* Frees what sn_resolve_srv() gave. Any thread; does nothing with NULL. */
SN_API void sn_srv_list_free(sn_srv_list *list);

SN_END

#endif
