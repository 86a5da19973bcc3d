/* SPDX-License-Identifier: MIT */
/*
 * Why something has failed, in words: for a connection, and for the task's last call.
 *
 * The text of the last failure belongs to the task, because another task may run on the thread by
 * the time the program asks for it. Outside the runtime the text belongs to the thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include <sennit/local.h>
#include <sennit/task.h>

#include "tls/tls.h"

/* ---- the last failure ---- */

static const sn_local of_task = {.destroy = free};
static _Thread_local char of_thread[TLS_TEXT];

/* The buffer of the text; NULL if there is none, or no memory for one. Never inlined, because a
 * compiler may cache the address of a thread-local within a function. */
static __attribute__((noinline)) char *place(bool make)
{
	char *text;

	if (!sn_self())
		return of_thread;
	text = sn_local_get(&of_task);
	if (text || !make)
		return text;
	text = calloc(1, TLS_TEXT);
	if (text && sn_local_set(&of_task, text) < 0) {
		free(text);
		text = NULL;
	}
	return text;
}

int sn_tls_say(int err, const char *format, ...)
{
	char *text = place(true);
	va_list args;

	va_start(args, format);
	if (text)
		vsnprintf(text, TLS_TEXT, format, args);
	va_end(args);
	return err;
}

const char *sn_tls_last_error(void)
{
	const char *text = place(false);

	return text ? text : "";
}

/* ---- OpenSSL's ---- */

static const char *openssl_text(unsigned long code, char *buf, size_t size)
{
	const char *text = ERR_reason_error_string(code);

	if (text)
		return text;
	ERR_error_string_n(code, buf, size);
	return buf;
}

struct sn_tls_errors sn_tls_take_errors(void)
{
	struct sn_tls_errors errors = {.first = ERR_peek_error(), .last = ERR_peek_last_error()};
	unsigned long each;

	while ((each = ERR_get_error()) != 0)
		errors.lack_memory |= ERR_GET_REASON(each) == ERR_R_MALLOC_FAILURE;
	return errors;
}

int sn_tls_say_openssl(int err, const char *what)
{
	char buf[TLS_TEXT];
	const struct sn_tls_errors errors = sn_tls_take_errors();

	if (errors.lack_memory)
		err = -ENOMEM;
	if (errors.last)
		sn_tls_say(err, "%s: %s", what, openssl_text(errors.last, buf, sizeof buf));
	else
		sn_tls_say(err, "%s", what);
	return err;
}

/* ---- of a connection ---- */

static void explain_protocol(const struct sn_tls *tls, char *text,
			     const struct sn_tls_errors *errors)
{
	char buf[TLS_TEXT];
	/* The first entry is the cause. An alert from the peer comes after the error that it has
	 * caused. */
	const unsigned long first = errors ? errors->first : 0, last = errors ? errors->last : 0;
	const int alert = ERR_GET_REASON(last) - SSL_AD_REASON_OFFSET;

	if (tls->flooded)
		snprintf(text, TLS_TEXT, "the peer has sent too many messages without data");
	else if (first == 0)
		snprintf(text, TLS_TEXT, "TLS has failed");
	else if (ERR_GET_LIB(last) == ERR_LIB_SSL && alert >= 0 && alert < 256)
		snprintf(text, TLS_TEXT, "the peer has refused with an alert: %s",
			 SSL_alert_desc_string_long(alert));
	else
		snprintf(text, TLS_TEXT, "%s", openssl_text(first, buf, sizeof buf));
}

static void explain(struct sn_tls *tls, int err, const struct sn_tls_errors *errors)
{
	char buf[TLS_TEXT];

	switch (err) {
	case -EKEYREJECTED:
		snprintf(tls->reason, TLS_TEXT, "the peer's certificate is refused: %s",
			 tls->refusal
				 ? tls->refusal
				 : X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl)));
		break;
	case -ECONNABORTED:
		snprintf(tls->reason, TLS_TEXT, "the peer has closed the connection %s",
			 tls->established ? "without close_notify, so data may be missing"
					  : "during the handshake");
		break;
	case -EPROTO:
		explain_protocol(tls, tls->reason, errors);
		break;
	default:
		snprintf(tls->reason, TLS_TEXT, "the connection has failed: %s",
			 strerror_r(-err, buf, sizeof buf));
		break;
	}
}

int sn_tls_fail(struct sn_tls *tls, int err, const struct sn_tls_errors *errors)
{
	if (tls->broken) {
		sn_tls_clear_errors(); /* the program's own calls would find these errors */
		return tls->broken;
	}
	explain(tls, err, errors);
	atomic_store_explicit(&tls->explained, true, memory_order_release);
	tls->broken = err;
	ERR_clear_error();
	return err;
}

int sn_tls_say_of(struct sn_tls *tls, int err)
{
	if (atomic_load_explicit(&tls->explained, memory_order_acquire))
		sn_tls_say(err, "%s", tls->reason);
	return err;
}
