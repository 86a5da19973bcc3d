/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.2 and 1.3 on streams, by OpenSSL 3.
 *
 * In a library of its own, libsennit-tls (pkg-config sennit-tls; sennit::tls in CMake), beside
 * libsennit and OpenSSL 3.0 or newer. docs/tls.md is the guide.
 *
 *	sn_tls_config *config;
 *	sn_stream *stream;
 *
 *	sn_tls_config_new(&config, SN_TLS_CLIENT);
 *	if (sn_tls_connect(&stream, "example.org:443", config, sn_now() + 5000000000) < 0)
 *		puts(sn_tls_last_error());
 *
 * A connection with TLS is a stream whose calls (stream.h, tcp.h, buffered.h, copy.h, relay.h) read
 * and write what is inside TLS: sn_tls_client() and sn_tls_server() turn a stream that is connected
 * into one, and it keeps its handle. There is no other object to close. What the calls of stream.h
 * promise holds here too, with these differences:
 *   - sn_stream_read() returns 0 only when the peer has ended its stream by TLS's own message. A
 *     connection that was cut off before that gives -ECONNABORTED.
 *   - What fails in TLS itself gives -EPROTO, or -EKEYREJECTED when it is the peer's certificate
 *     that is refused here. A peer that sends 32 messages of TLS's own in a row, such as new keys
 *     or tickets, without a byte of data in either direction, gives -EPROTO, too. sn_tls_error()
 *     says why. The stream can then only be closed.
 *   - sn_stream_shutdown() with SN_SHUT_WRITE may park, and gives -EBUSY while another task writes.
 *     It sends close_notify, then ends the socket's stream.
 *   - sn_stream_close() sends close_notify if there is room for it, as there nearly always is;
 *     shut the stream down first where the peer must get it. sn_stream_abort() sends none. In a
 *     task, sn_stream_close() may park for up to a second where the peer has sent what was not
 *     read, or a client has read nothing since the handshake, so that tickets may be unread: its
 *     kernel would reset the connection and discard what it has not sent yet.
 *   - A write takes at most 64 KiB. One that is ended by a deadline returns what it has taken.
 *   - sn_tcp_wait_closed() looks at the socket alone.
 *
 * Stacks. OpenSSL needs deep stacks for its handshakes. A task that makes one should have
 * SN_TLS_STACK bytes (sn_task_attr.stack_size, or sn_run_attr.stack_size for all). With less than
 * SN_TLS_STACK_LEAST left, a handshake fails with -ENOBUFS before it begins.
 *
 * Waiting is never done inside OpenSSL: a task that waits is parked by sennit, as for any stream.
 *
 * Where a call takes a certificate, a key, or a list of either, text that contains "-----BEGIN" is
 * the PEM itself, and any other is the path of a file with it. Files are read when the call is
 * made.
 *
 * Threads outside the runtime: calls on a sn_tls_config, and sn_tls_last_error(); the others return
 * -ENOTSUP or NULL. Signal handlers: none.
 *
 * The end of a run stops its tasks wherever they are. It must not come while one of them begins
 * TLS, reads, writes, or makes another call with a configuration that is used afterwards, or in a
 * thread at that time: wait for such tasks first, with a scope.
 */
#ifndef SENNIT_TLS_H
#define SENNIT_TLS_H

#include <sennit/base.h>
#include <sennit/stream.h>

SN_BEGIN

/* The stack that a task with handshakes should have, and the least that must be left for one. */
#define SN_TLS_STACK ((size_t)256 << 10)
#define SN_TLS_STACK_LEAST ((size_t)64 << 10)

/* ---- configuration ---- */

/*
 * How connections are made: what is trusted, certificates, protocols. Reference counted; each
 * connection holds a reference. Set it up before its first connection. After that, only
 * certificates with their OCSP responses, revocation lists and the keys of tickets may change.
 */
typedef struct sn_tls_config sn_tls_config;

/* Which end of connections a configuration is for. */
enum sn_tls_role {
	SN_TLS_CLIENT = 0, /* verifies the server, with the system's certificate authorities */
	SN_TLS_SERVER = 1, /* needs a certificate */
};

/* Makes a configuration, with one reference. Returns 0; -EINVAL; -ENOMEM. */
SN_API SN_CHECK_RESULT int sn_tls_config_new(sn_tls_config **config, enum sn_tls_role role);

/* Take and drop a reference; dropping the last one frees the configuration. NULL is allowed. */
SN_API sn_tls_config *sn_tls_config_ref(sn_tls_config *config);
SN_API void sn_tls_config_unref(sn_tls_config *config);

/*
 * The calls below return 0; -EINVAL for a wrong argument; -EBUSY when the configuration has had a
 * connection and the call has to come before the first; -ENOMEM; -ENOENT, -EACCES and the like for
 * a file; -EBADMSG for what is in it. sn_tls_last_error() says more.
 */

/* Whether the peer has to show a certificate, and a good one. */
enum sn_tls_verify {
	SN_TLS_VERIFY_NONE = 0,    /* none is asked for; a client accepts any, from anybody */
	SN_TLS_VERIFY_REQUEST = 1, /* a client may come without one, but not with a bad one */
	SN_TLS_VERIFY_REQUIRE = 2, /* the default for clients, for which REQUEST is the same */
};

/* Sets how to verify the peer. The default of servers is SN_TLS_VERIFY_NONE. A server that verifies
 * needs sn_tls_config_add_ca(), or sn_tls_config_add_system_ca() if it means every authority of the
 * web: sn_tls_server() returns -EINVAL otherwise. */
SN_API int sn_tls_config_set_verify(sn_tls_config *config, enum sn_tls_verify verify);

/*
 * Trusts certificate authorities: of a file or PEM text, or of a folder as of openssl-rehash(1).
 * Once a client has one, the system's are no longer trusted, unless sn_tls_config_add_system_ca()
 * adds them.
 */
SN_API int sn_tls_config_add_ca(sn_tls_config *config, const char *where);
SN_API int sn_tls_config_add_system_ca(sn_tls_config *config);

/*
 * Adds revocation lists, from a file or PEM text. Once there is one, the peer's own certificate is
 * checked, and is refused if its issuer has no list here, or one that has expired; those of the
 * authorities in between are not. The first has to come before the first connection (-EBUSY);
 * others may be added at any time, and of those of an issuer that are in time the newest counts. A
 * session that is resumed is not checked again.
 */
SN_API int sn_tls_config_add_crl(sn_tls_config *config, const char *where);

/*
 * Whether a client asks servers for an OCSP response of their certificate, sent in the handshake
 * ("stapled"), by which an authority says that it has not revoked the certificate.
 */
enum sn_tls_stapling {
	SN_TLS_STAPLING_NONE = 0,    /* the default */
	SN_TLS_STAPLING_REQUEST = 1, /* a response may be missing, but not bad */
	SN_TLS_STAPLING_REQUIRE = 2,
};

/*
 * Sets that, for clients that verify. A response is good when it says that this very certificate
 * is, is in time (without an end: of the last day), and is signed by the certificate's issuer, or
 * by a responder to which that issuer has given a certificate for this purpose. With REQUEST, too,
 * a certificate that itself demands a response ("must staple", RFC 7633) is refused without one.
 * What is not good gives -EKEYREJECTED, and sn_tls_error() says why. No responder is asked. A
 * session that is resumed is not checked again.
 */
SN_API int sn_tls_config_set_stapling(sn_tls_config *config, enum sn_tls_stapling stapling);

/* A certificate, followed by those of the authorities between it and the root; and its key. */
struct sn_tls_certificate {
	const char *chain; /* PEM */
	const char *key;   /* PEM, without a password */
};

/*
 * Replaces the certificates that this end shows. A server has any number, and shows the first that
 * has the name that the client asks for; else the first with a wildcard that fits it; else the
 * first of all. A client shows the first to a server that asks for one.
 *
 * At any time: handshakes of connections that are made later use the new ones, those under way end
 * with the old ones. A client forgets its sessions, so that servers see the new certificate. When
 * the call fails, nothing has changed.
 */
SN_API int sn_tls_config_set_certificates(sn_tls_config *config,
					  const struct sn_tls_certificate *list, size_t n);

/*
 * Gives a server the OCSP response of its certificate, in DER, as a responder has sent it (`openssl
 * ocsp -respout`): clients that ask for it get it in the handshake. The response says which of the
 * certificates it is for, and replaces an earlier one. The bytes are copied.
 *
 * At any time: connections that are made later get the new response. Fetch one well before the end
 * that the present one names. After that end it is no longer sent, as clients refuse such
 * responses, but mostly take a certificate without. sn_tls_config_set_certificates() keeps the
 * responses of certificates that it sets again.
 *
 * Errors, after which nothing has changed: -EBADMSG also for a response that reports an error of
 * the responder; -ENOENT when it is for none of the certificates; -ESTALE when it has expired. Its
 * signature is not looked at: clients do that.
 */
SN_API int sn_tls_config_set_ocsp_response(sn_tls_config *config, const void *der, size_t size);

/*
 * Application protocols (ALPN), the preferred first, such as "h2,http/1.1". A server takes the
 * first of its own that the client offers, and refuses a client that offers others only. NULL:
 * none are offered or looked at, the default.
 */
SN_API int sn_tls_config_set_alpn(sn_tls_config *config, const char *protocols);

/*
 * A server accepts, of TLS 1.2, only ciphers with forward secrecy and authenticated encryption, and
 * the groups X25519, P-256 and P-384. It prefers AES with 128 bits, except for clients that prefer
 * ChaCha20. OpenSSL's calls on sn_tls_config_ssl_ctx() change that: SSL_CTX_set_cipher_list(),
 * SSL_CTX_set_ciphersuites(), SSL_CTX_set1_groups_list() and the option
 * SSL_OP_CIPHER_SERVER_PREFERENCE.
 */

/* Versions of TLS, by their numbers on the wire. */
enum sn_tls_version {
	SN_TLS_DEFAULT = 0, /* as lowest: SN_TLS_1_2; as highest: the newest that OpenSSL has */
	SN_TLS_1_2 = 0x0303,
	SN_TLS_1_3 = 0x0304,
};

/* Sets the versions that are allowed. */
SN_API int sn_tls_config_set_versions(sn_tls_config *config, enum sn_tls_version lowest,
				      enum sn_tls_version highest);

/*
 * Sets whether sessions are resumed, which saves the most expensive part of a handshake. The
 * default is
 * 1. A client keeps the last 256 sessions, 16 of each name at most, and uses one for a server of
 * the same name. A server gives its clients tickets, with keys that live as long as the
 * configuration, or those of sn_tls_config_set_ticket_keys(). Once the certificate of a peer that
 * is verified has expired, its sessions are not resumed any more. A server resumes a session of
 * TLS 1.2 only for the name for which it was made.
 */
SN_API int sn_tls_config_set_resumption(sn_tls_config *config, int on);

/*
 * Gives a server the keys of its tickets: n of SN_TLS_TICKET_KEY random bytes each, at most 64.
 * Tickets are made with the first, and taken if they were made with any; a client that comes with
 * one of another key gets a new ticket. Servers with the same keys resume each other's sessions,
 * and so do the ones before and after a restart, if they verify clients in the same way: the same
 * sn_tls_config_set_verify(), the same authorities, with or without revocation lists. Otherwise a
 * client's ticket is not taken, and it has to show its certificate. `openssl rand 80` makes a key.
 *
 * Anyone who learns a key can read the recorded connections of TLS 1.2 that were resumed by its
 * tickets, so replace them daily: put a new one first, and drop the oldest. At any time, if it was
 * first called before the first connection. Connections that exist keep the old keys. The bytes are
 * copied, and erased when no connection has them any more.
 */
#define SN_TLS_TICKET_KEY 80
SN_API int sn_tls_config_set_ticket_keys(sn_tls_config *config, const void *keys, size_t n);

/*
 * Appends the secrets of all connections to a file, in the format that wireshark reads: for
 * debugging only. NULL: the file that the environment variable SSLKEYLOGFILE names, or none if it
 * is not set. Without this call that variable is not looked at.
 */
SN_API int sn_tls_config_set_key_log(sn_tls_config *config, const char *path);

/* The SSL_CTX of the configuration, for settings of OpenSSL that are not here, before its first
 * connection. Its callbacks, its verification mode and its application data are the library's. */
SN_API void *sn_tls_config_ssl_ctx(sn_tls_config *config);

/* ---- connections ---- */

/*
 * Connects as sn_tcp_connect() does, and makes the handshake, all before the deadline. The name (or
 * the numeric address) in the address is the one that the server's certificate must have; a name is
 * also sent to the server. A certificate has its alternative names; only if there is no DNS name
 * among them, the common name of its subject counts as one. A Unix socket's path
 * ("unix:/run/app.sock") says no such name: it gives -EINVAL, unless nothing is verified; use
 * sn_tcp_connect() and sn_tls_client(). The caller owns *stream. May park.
 * Errors: those of sn_tcp_connect() and sn_tls_handshake().
 */
SN_API SN_CHECK_RESULT int sn_tls_connect(sn_stream **stream, const char *address,
					  sn_tls_config *config, int64_t deadline);

/*
 * Begin TLS on a stream socket that is connected, as the client or as the server; nobody else may
 * use it during the call. name: of the server, or its numeric address; NULL only if nothing is
 * verified. A dot at its end is left out; a name with a dot at its beginning, or two at its end, is
 * -EINVAL. No byte is sent yet: sn_tls_handshake() does that, or the first read or write. Do not
 * park. Errors, after which the stream is as it was: -EINVAL, also for a configuration of the other
 * role, or without a certificate for a server; -EEXIST when it has TLS; -ENOTSOCK for what is not a
 * stream socket; -EBUSY, -EBADF, -ECANCELED, -ENOMEM; -ENOTSUP outside a task.
 */
SN_API int sn_tls_client(sn_stream *stream, sn_tls_config *config, const char *name);
SN_API int sn_tls_server(sn_stream *stream, sn_tls_config *config);

/*
 * Makes the handshake, if that has not been done. Returns -EBUSY while another task reads or
 * writes. The stream's deadlines count, too. After -ETIMEDOUT the call may be repeated.
 *
 * In TLS 1.3 a client's handshake ends before the server has seen the client's certificate, so only
 * the first read reports that the server has refused it.
 *
 * Returns 0; -ETIMEDOUT; -EKEYREJECTED when the peer's certificate is refused; -EPROTO for other
 * failures in TLS, also those that the peer reports; -ECONNABORTED when the peer closes during the
 * handshake; -ENOBUFS when too little of the task's stack is left; -ENOMEM, also when it is OpenSSL
 * that has no memory; -ECONNRESET and other errors of the socket; -EBADF, -ECANCELED, -EPROTOTYPE
 * for a stream without TLS, -ENOTSUP. May park.
 */
SN_API SN_CHECK_RESULT int sn_tls_handshake(sn_stream *stream, int64_t deadline);

/*
 * Has both ends encrypt with new keys from the next write on (TLS 1.3), for connections that live
 * long. Returns 0; -ENOTCONN before the end of the handshake; -EOPNOTSUPP in TLS 1.2; as
 * sn_tls_info(). May park for a moment.
 */
SN_API int sn_tls_update_keys(sn_stream *stream);

/* ---- what there is to know ---- */

/* Text that says why the last call of this header failed in this task, or in this thread if it is
 * outside the runtime; "" when none has. Stays until the next one fails. */
SN_API const char *sn_tls_last_error(void);

/*
 * Text that says why TLS has failed on this stream, such as "the peer's certificate is refused:
 * certificate has expired"; "" when it has not. The text belongs to the stream, which must not be
 * closed while it is used. NULL for a stream without TLS.
 */
SN_API const char *sn_tls_error(sn_stream *stream);

/* Filled by sn_tls_info(). The texts are "" where there is none, and are cut if too long. */
struct sn_tls_info {
	/* Set by SN_TLS_INFO_INIT(). */
	size_t size SN_SIZE_OF(struct sn_tls_info);
	int finished; /* 1: the handshake is complete; before, the rest says little */
	enum sn_tls_version version; /* SN_TLS_1_2 or SN_TLS_1_3 */
	int resumed;                 /* 1: a session was resumed */
	long verify_result;    /* what verifying the peer has found: X509_V_OK, 0, or another */
	size_t peer_size;      /* of the peer's certificate in DER; 0: it has shown none */
	char cipher[64];       /* such as "TLS_AES_256_GCM_SHA384" */
	char alpn[64];         /* the protocol that was agreed on */
	char server_name[256]; /* that the client has asked for */
};

/* struct sn_tls_info with its size, and the fields that are given, as .name = value. */
#define SN_TLS_INFO_INIT(...) SN_SIZED_INIT(struct sn_tls_info, __VA_ARGS__)

/* Fills *info. Returns 0; -EPROTOTYPE for a stream without TLS; -EBADF, -EINVAL, -ENOTSUP. May park
 * for a moment, until calls of other tasks on the stream have finished. */
SN_API int sn_tls_info(sn_stream *stream, struct sn_tls_info *info);

/*
 * Copies the peer's certificate, in DER, to buf. Returns its size; -ENOENT when it has shown none;
 * -ENOSPC when size is less; as sn_tls_info(). May park for a moment.
 */
SN_API SN_CHECK_RESULT ssize_t sn_tls_peer_certificate(sn_stream *stream, void *buf, size_t size);

SN_END

#endif
