/* SPDX-License-Identifier: MIT */
/*
 * The sessions that a client may resume. They are kept in its configuration, by the server's name.
 *
 * OpenSSL passes a new session to a callback, in the middle of a call, under the connection's lock.
 * The callback only stores it in the connection; the configuration's lock is taken after the call.
 * A session of TLS 1.3 is used once, as the RFC asks. A server gives one with each connection, so a
 * client that makes several connections together has enough for the next time. A second ticket,
 * which is OpenSSL's default, would take a fourteenth of a handshake's time.
 *
 * Each resumed session gives a new ticket, so a client could resume forever. That ends when the
 * certificate that the peer has shown expires: a full handshake then verifies the peer again.
 *
 * A server's ticket says that the client was verified, or need not be. OpenSSL compares only the
 * session's context, which is the same for the whole program. Therefore a ticket also has a digest
 * of how clients are verified (trust.c). A server does not accept a ticket of another server that
 * has the same keys but verifies clients in another way.
 *
 * In TLS 1.2 a session belongs to the name for which it was made: RFC 6066, section 3, forbids to
 * resume it for another. OpenSSL would resume it, with the session's name. In TLS 1.3 the name of
 * the new hello counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tls/tls.h"

/* How many sessions are kept, for all servers and for one. A server may give four tickets with each
 * read, and could otherwise displace the sessions of all others. More than a few are useful only
 * for connections that begin at the same time. */
#define MOST_SESSIONS 256
#define MOST_OF_A_SERVER 16

/* OpenSSL's callback. Returns 1 if it has taken the reference, else 0. */
static int fresh_session(SSL *ssl, SSL_SESSION *session)
{
	struct sn_tls *tls = sn_tls_of(ssl);

	if (!tls || !tls->name || tls->nfresh == TLS_FRESH)
		return 0;
	tls->fresh[tls->nfresh++] = session;
	return 1;
}

/* Whether the certificate that the peer has shown, if any, has expired since. */
static bool has_expired(const SSL_SESSION *session)
{
	const X509 *peer = SSL_SESSION_get0_peer((SSL_SESSION *)session);

	return peer && X509_cmp_current_time(X509_get0_notAfter(peer)) < 0;
}

/* Stores in a new ticket how this server verifies clients. Returning 0 makes the handshake fail. */
static int note_verification(SSL *ssl, void *arg)
{
	const struct sn_tls *tls = sn_tls_of(ssl);

	(void)arg;
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), tls->config->verification,
					       TLS_DIGEST);
}

/* Whether the session was made by a server that verifies clients as this one does. A resumption
 * asks for no certificate, so this is the only check. */
static bool is_verified(const sn_tls_config *config, SSL_SESSION *session)
{
	size_t size = 0;
	void *noted;

	if (SSL_SESSION_get0_ticket_appdata(session, &noted, &size) != 1 || size != TLS_DIGEST ||
	    memcmp(noted, config->verification, TLS_DIGEST) != 0)
		return false;
	return config->verify != SN_TLS_VERIFY_REQUIRE || SSL_SESSION_get0_peer(session);
}

/* OpenSSL's callback of a server, which accepts any name, so that OpenSSL keeps it in the session,
 * and tells the client that it was used. */
static int accept_name(SSL *ssl, int *alert, void *arg)
{
	(void)ssl;
	(void)alert;
	(void)arg;
	return SSL_TLSEXT_ERR_OK;
}

/* Whether the session may be resumed for the name that the client asks for. */
static bool is_for_name(const struct sn_tls *tls, const SSL_SESSION *session)
{
	const char *noted = SSL_SESSION_get0_hostname(session);

	if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
		return true;
	return tls->name && noted ? strcasecmp(tls->name, noted) == 0 : !tls->name && !noted;
}

/* Called when a client has sent a ticket. Decides as OpenSSL does without a callback, but ignores
 * sessions that may not be resumed. */
static SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
				      size_t size, SSL_TICKET_STATUS status, void *arg)
{
	const struct sn_tls *tls = sn_tls_of(ssl);

	(void)name;
	(void)size;
	(void)arg;
	if ((status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) ||
	    has_expired(session) || !is_verified(tls->config, session) ||
	    !is_for_name(tls, session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void sn_tls_sessions_init(sn_tls_config *config)
{
	static const unsigned char context[] = "sennit";

	config->resumes = true;
	if (config->role == SN_TLS_CLIENT) {
		SSL_CTX_set_session_cache_mode(config->ctx,
					       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(config->ctx, fresh_session);
	} else {
		/* Only tickets, so that the server keeps nothing. */
		SSL_CTX_set_session_cache_mode(config->ctx, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_num_tickets(config->ctx, 1);
		SSL_CTX_set_session_ticket_cb(config->ctx, note_verification, judge_ticket, NULL);
		SSL_CTX_set_tlsext_servername_callback(config->ctx, accept_name);
		SSL_CTX_set_session_id_context(config->ctx, context, sizeof context - 1);
	}
}

int sn_tls_config_set_resumption(sn_tls_config *config, int on)
{
	if (!config)
		return sn_tls_say(-EINVAL, "no configuration");
	if (config->used)
		return sn_tls_say(-EBUSY, "the configuration is in use");
	config->resumes = on != 0;
	if (on)
		SSL_CTX_clear_options(config->ctx, SSL_OP_NO_TICKET);
	else
		SSL_CTX_set_options(config->ctx, SSL_OP_NO_TICKET);
	if (config->role == SN_TLS_SERVER)
		SSL_CTX_set_num_tickets(config->ctx, on ? 1 : 0);
	return 0;
}

static void release(struct sn_tls_session *each)
{
	SSL_SESSION_free(each->session);
	free(each);
}

/* Takes the first session for the name out of the list. The configuration's lock is held. */
static struct sn_tls_session *take(sn_tls_config *config, const char *name)
{
	for (struct sn_tls_session **at = &config->sessions; *at; at = &(*at)->next) {
		struct sn_tls_session *each = *at;

		if (strcmp(each->name, name) != 0)
			continue;
		*at = each->next;
		config->nsessions--;
		return each;
	}
	return NULL;
}

/* Puts a session at the front of the list, and drops the last one (of its server, or of all) if
 * there are too many. The configuration's lock is held. */
static void put(sn_tls_config *config, struct sn_tls_session *session)
{
	struct sn_tls_session **last = NULL, **last_of_its = NULL, *excess;
	int its = 0;

	session->next = config->sessions;
	config->sessions = session;
	config->nsessions++;
	for (struct sn_tls_session **at = &config->sessions; *at; at = &(*at)->next) {
		last = at;
		if (strcmp((*at)->name, session->name) == 0) {
			last_of_its = at;
			its++;
		}
	}
	if (its <= MOST_OF_A_SERVER && config->nsessions <= MOST_SESSIONS)
		return;
	if (its > MOST_OF_A_SERVER)
		last = last_of_its;
	excess = *last;
	*last = excess->next;
	config->nsessions--;
	release(excess);
}

void sn_tls_session_offer(struct sn_tls *tls)
{
	sn_tls_config *config = tls->config;
	struct sn_tls_session *session;

	if (!tls->name || !config->resumes)
		return;
	sn_mutex_lock_uncancelled(&config->lock);
	session = take(config, tls->name);
	if (session && config->verify != SN_TLS_VERIFY_NONE && has_expired(session->session)) {
		release(session);
	} else if (session) {
		SSL_set_session(tls->ssl, session->session);
		tls->offered = session->session;
		if (SSL_SESSION_get_protocol_version(session->session) < TLS1_3_VERSION)
			put(config, session);
		else
			release(session);
	}
	sn_mutex_unlock(&config->lock);
}

/* In TLS 1.2 OpenSSL calls no callback when a server resumes a session and gives a new ticket for
 * it. However, the connection then has another session, which this detects. */
void sn_tls_session_renewed(struct sn_tls *tls)
{
	SSL_SESSION *now = SSL_get_session(tls->ssl);

	if (!tls->offered || !now || now == tls->offered || !SSL_session_reused(tls->ssl) ||
	    SSL_version(tls->ssl) >= TLS1_3_VERSION)
		return;
	tls->offered = now;
	if (SSL_SESSION_up_ref(now) == 1 && !fresh_session(tls->ssl, now))
		SSL_SESSION_free(now);
}

/* Moves a session to the configuration. Drops it if the connection used certificates that were
 * replaced: a resumed session would identify the client by those. */
static void keep(struct sn_tls *tls, SSL_SESSION *session)
{
	const size_t size = strlen(tls->name) + 1;
	struct sn_tls_session *kept = malloc(sizeof *kept + size);
	sn_tls_config *config = tls->config;
	bool fits;

	if (!kept || !config->resumes) {
		free(kept);
		SSL_SESSION_free(session);
		return;
	}
	kept->session = session;
	memcpy(kept->name, tls->name, size);
	sn_mutex_lock_uncancelled(&config->lock);
	fits = tls->set == config->set;
	if (fits)
		put(config, kept);
	sn_mutex_unlock(&config->lock);
	if (!fits)
		release(kept);
}

void sn_tls_sessions_keep(struct sn_tls *tls)
{
	for (int i = 0; i < tls->nfresh; i++)
		keep(tls, tls->fresh[i]);
	tls->nfresh = 0;
}

struct sn_tls_session *sn_tls_sessions_take(sn_tls_config *config)
{
	struct sn_tls_session *all = config->sessions;

	config->sessions = NULL;
	config->nsessions = 0;
	return all;
}

void sn_tls_sessions_free(struct sn_tls_session *all)
{
	while (all) {
		struct sn_tls_session *each = all;

		all = each->next;
		release(each);
	}
}
