/* SPDX-License-Identifier: MIT */
/*
 * The C library's functions that ask the name service (nsswitch.conf(5)), for real.h and
 * database.c.
 *
 * Contract. The lists name each function of glibc that may call a module of the name service, also
 * those in which another function does, such as getlogin() and gethostid(). getaddrinfo() is in
 * name.c. The test hooks/database_list follows the calls in the C library's code, and fails if a
 * function is missing here. These have no hook:
 *
 * - glob(), which looks up the user in "~user". glibc has versions of it that differ, and a hook,
 *   which replaces all of them, cannot tell which one the program was linked to. Programs of the
 *   time before glibc 2.27 may leave gl_lstat unset, which the newest version calls.
 * - getaddrinfo_a(): a thread of the C library asks, which is no task.
 *
 * It skips functions to which no program can be linked any more: Sun RPC's, such as getpublickey().
 * libtirpc has functions of the same names, which a hook would replace.
 *
 * musl has no modules: of its functions only those are replaced that may ask a server.
 *
 * Why a list: the C library's calls of a module are internal, so they cannot be replaced. Rejected:
 *
 * - to look in poll(), recv() and so on whether they are called from a module, by the return
 *   address: a module may wait in a library that the program uses, too, such as libldap or libpq.
 * - to unwind the stack up to the C library's frame: without the tables for it nothing is found,
 *   which is unsafe, and callbacks of qsort() are found, too. Each call that parks would pay.
 */
#ifndef SENNIT_HOOKS_DATABASE_H
#define SENNIT_HOOKS_DATABASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

struct aliasent;
struct ether_addr;
struct group;
struct hostent;
struct netent;
struct passwd;
struct protoent;
struct rpcent;
struct servent;
struct sgrp;
struct spwd;

#define SN_DATABASE_LIST(...) __VA_ARGS__

/* A function with a key, which returns what belongs to the C library; and its variant with _r. */
#define SN_DATABASE_KEY(X, type, name, parameters, arguments)                               \
	X(struct type *, name, (SN_DATABASE_LIST parameters), (SN_DATABASE_LIST arguments)) \
	X(int, name##_r,                                                                    \
	  (SN_DATABASE_LIST parameters, struct type * entry, char *buf, size_t size,        \
	   struct type **found),                                                            \
	  (SN_DATABASE_LIST arguments, entry, buf, size, found))

/* The same, for the variants that also store h_errno. */
#define SN_DATABASE_HOST(X, type, name, parameters, arguments)                              \
	X(struct type *, name, (SN_DATABASE_LIST parameters), (SN_DATABASE_LIST arguments)) \
	X(int, name##_r,                                                                    \
	  (SN_DATABASE_LIST parameters, struct type * entry, char *buf, size_t size,        \
	   struct type **found, int *error),                                                \
	  (SN_DATABASE_LIST arguments, entry, buf, size, found, error))

/* A function that returns one entry after the other; and its variants. */
#define SN_DATABASE_NEXT(X, type, name)                                                      \
	X(struct type *, name, (void), ())                                                   \
	X(int, name##_r, (struct type * entry, char *buf, size_t size, struct type **found), \
	  (entry, buf, size, found))
#define SN_DATABASE_NEXT_HOST(X, type, name)                                              \
	X(struct type *, name, (void), ())                                                \
	X(int, name##_r,                                                                  \
	  (struct type * entry, char *buf, size_t size, struct type **found, int *error), \
	  (entry, buf, size, found, error))

/* X(result, name, parameters, arguments) */
#define SN_REAL_DATABASES(X)                                                                  \
	SN_DATABASE_HOST(X, hostent, gethostbyname, (const char *name), (name))               \
	SN_DATABASE_HOST(X, hostent, gethostbyname2, (const char *name, int family),          \
			 (name, family))                                                      \
	SN_DATABASE_HOST(X, hostent, gethostbyaddr,                                           \
			 (const void *address, socklen_t length, int family),                 \
			 (address, length, family))                                           \
	X(int, getnameinfo,                                                                   \
	  (const struct sockaddr *address, socklen_t length, char *host, socklen_t host_size, \
	   char *service, socklen_t service_size, int flags),                                 \
	  (address, length, host, host_size, service, service_size, flags))                   \
	SN_DATABASE_KEY(X, servent, getservbyname, (const char *name, const char *protocol),  \
			(name, protocol))                                                     \
	SN_DATABASE_KEY(X, servent, getservbyport, (int port, const char *protocol),          \
			(port, protocol))                                                     \
	SN_DATABASE_KEY(X, passwd, getpwnam, (const char *name), (name))                      \
	SN_DATABASE_KEY(X, passwd, getpwuid, (uid_t uid), (uid))                              \
	SN_DATABASE_KEY(X, group, getgrnam, (const char *name), (name))                       \
	SN_DATABASE_KEY(X, group, getgrgid, (gid_t gid), (gid))                               \
	X(int, getgrouplist, (const char *user, gid_t group, gid_t *groups, int *n),          \
	  (user, group, groups, n))                                                           \
	X(int, initgroups, (const char *user, gid_t group), (user, group))                    \
	SN_REAL_DATABASES_OF_GLIBC(X)

#ifdef __GLIBC__
#	define SN_REAL_DATABASES_OF_GLIBC(X)                                                  \
		SN_DATABASE_NEXT_HOST(X, hostent, gethostent)                                  \
		SN_DATABASE_HOST(X, netent, getnetbyname, (const char *name), (name))          \
		SN_DATABASE_HOST(X, netent, getnetbyaddr, (uint32_t net, int family),          \
				 (net, family))                                                \
		SN_DATABASE_NEXT_HOST(X, netent, getnetent)                                    \
		SN_DATABASE_KEY(X, protoent, getprotobyname, (const char *name), (name))       \
		SN_DATABASE_KEY(X, protoent, getprotobynumber, (int number), (number))         \
		SN_DATABASE_NEXT(X, protoent, getprotoent)                                     \
		SN_DATABASE_NEXT(X, servent, getservent)                                       \
		SN_DATABASE_KEY(X, rpcent, getrpcbyname, (const char *name), (name))           \
		SN_DATABASE_KEY(X, rpcent, getrpcbynumber, (int number), (number))             \
		SN_DATABASE_NEXT(X, rpcent, getrpcent)                                         \
		SN_DATABASE_NEXT(X, passwd, getpwent)                                          \
		SN_DATABASE_NEXT(X, group, getgrent)                                           \
		SN_DATABASE_KEY(X, spwd, getspnam, (const char *name), (name))                 \
		SN_DATABASE_NEXT(X, spwd, getspent)                                            \
		SN_DATABASE_KEY(X, sgrp, getsgnam, (const char *name), (name))                 \
		SN_DATABASE_NEXT(X, sgrp, getsgent)                                            \
		SN_DATABASE_KEY(X, aliasent, getaliasbyname, (const char *name), (name))       \
		SN_DATABASE_NEXT(X, aliasent, getaliasent)                                     \
		X(int, ether_hostton, (const char *host, struct ether_addr *address),          \
		  (host, address))                                                             \
		X(int, ether_ntohost, (char *host, const struct ether_addr *address),          \
		  (host, address))                                                             \
		X(int, setnetgrent, (const char *group), (group))                              \
		X(int, getnetgrent, (char **host, char **user, char **domain),                 \
		  (host, user, domain))                                                        \
		X(int, getnetgrent_r,                                                          \
		  (char **host, char **user, char **domain, char *buf, size_t size),           \
		  (host, user, domain, buf, size))                                             \
		X(int, innetgr,                                                                \
		  (const char *group, const char *host, const char *user, const char *domain), \
		  (group, host, user, domain))                                                 \
		SN_REAL_DATABASES_INSIDE(X)
#else
#	define SN_REAL_DATABASES_OF_GLIBC(X)
#endif

/* Functions that ask for another purpose. */
#define SN_REAL_DATABASES_INSIDE(X)                                                              \
	X(char *, getlogin, (void), ())                                                          \
	X(int, getlogin_r, (char *name, size_t size), (name, size))                              \
	X(int, __getlogin_r_chk, (char *name, size_t n, size_t size), (name, n, size))           \
	X(char *, cuserid, (char *name), (name))                                                 \
	X(int, getpw, (uid_t uid, char *line), (uid, line))                                      \
	X(long, gethostid, (void), ())                                                           \
	X(int, wordexp, (const char *text, void *words, int flags), (text, words, flags))        \
	X(int, rcmd,                                                                             \
	  (char **host, unsigned short port, const char *here, const char *there,                \
	   const char *command, int *fd),                                                        \
	  (host, port, here, there, command, fd))                                                \
	X(int, rcmd_af,                                                                          \
	  (char **host, unsigned short port, const char *here, const char *there,                \
	   const char *command, int *fd, sa_family_t family),                                    \
	  (host, port, here, there, command, fd, family))                                        \
	X(int, rexec,                                                                            \
	  (char **host, int port, const char *user, const char *password, const char *command,   \
	   int *fd),                                                                             \
	  (host, port, user, password, command, fd))                                             \
	X(int, rexec_af,                                                                         \
	  (char **host, int port, const char *user, const char *password, const char *command,   \
	   int *fd, sa_family_t family),                                                         \
	  (host, port, user, password, command, fd, family))                                     \
	X(int, ruserok, (const char *host, int root, const char *there, const char *here),       \
	  (host, root, there, here))                                                             \
	X(int, ruserok_af,                                                                       \
	  (const char *host, int root, const char *there, const char *here, sa_family_t family), \
	  (host, root, there, here, family))                                                     \
	X(int, iruserok, (uint32_t host, int root, const char *there, const char *here),         \
	  (host, root, there, here))                                                             \
	X(int, iruserok_af,                                                                      \
	  (const void *host, int root, const char *there, const char *here, sa_family_t family), \
	  (host, root, there, here, family))                                                     \
	X(int, __ivaliduser, (FILE * file, uint32_t host, const char *here, const char *there),  \
	  (file, host, here, there))

/* Functions that return nothing. */
#ifdef __GLIBC__
#	define SN_REAL_DATABASE_VOIDS(X)                \
		X(void, sethostent, (int stay), (stay))  \
		X(void, endhostent, (void), ())          \
		X(void, setnetent, (int stay), (stay))   \
		X(void, endnetent, (void), ())           \
		X(void, setprotoent, (int stay), (stay)) \
		X(void, endprotoent, (void), ())         \
		X(void, setservent, (int stay), (stay))  \
		X(void, endservent, (void), ())          \
		X(void, setrpcent, (int stay), (stay))   \
		X(void, endrpcent, (void), ())           \
		X(void, setpwent, (void), ())            \
		X(void, endpwent, (void), ())            \
		X(void, setgrent, (void), ())            \
		X(void, endgrent, (void), ())            \
		X(void, setspent, (void), ())            \
		X(void, endspent, (void), ())            \
		X(void, setsgent, (void), ())            \
		X(void, endsgent, (void), ())            \
		X(void, setaliasent, (void), ())         \
		X(void, endaliasent, (void), ())         \
		X(void, endnetgrent, (void), ())
#else
#	define SN_REAL_DATABASE_VOIDS(X)
#endif

#endif
