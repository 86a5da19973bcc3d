/* SPDX-License-Identifier: MIT */
/*
 * Reading PEM, from a file or from a text.
 *
 * Contract. Nothing here has state except the thread's queue of errors of OpenSSL, and the reason
 * that sn_tls_say() notes for the caller. The calling thread opens and reads the file, and may
 * block on a slow one; nothing parks. The caller owns the BIO and gives it to BIO_free(). One for a
 * text refers to the text, which must outlive it. The file is opened close-on-exec.
 */
#ifndef SENNIT_TLS_PEM_H
#define SENNIT_TLS_PEM_H

#include <stdbool.h>

#include <openssl/bio.h>

/* Whether `where` is PEM text; otherwise it is the path of a file. */
bool sn_tls_pem_is_text(const char *where);

/* Opens the file or text. Returns 0, or an error, which sn_tls_say() has explained. */
int sn_tls_pem_open(BIO **bio, const char *where);

/* Whether the last read of PEM failed because there was no more. If so, clears that error. */
bool sn_tls_pem_at_end(void);

#endif
