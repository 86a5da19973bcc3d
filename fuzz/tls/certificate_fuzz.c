/* SPDX-License-Identifier: MIT */
/*
 * For libFuzzer, with seeds/certificate/ to begin with: whatever is in the files of certificates,
 * keys and OCSP responses, they are taken, or refused with an error and a reason; nothing leaks;
 * and a set that is refused does not replace the one in use. scripts/fuzz runs it. OpenSSL's own
 * parsers are not instrumented.
 *
 * The first byte says what the rest is: 'P' for the PEM of a chain with its key; 'C' for a
 * certificate and 'K' for a key in DER, which this turns into PEM, so that the fuzzer need not
 * invent base64; 'O' for an OCSP response.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "tls/tls.h"

#define MOST 16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text of fuzz/tls/good.pem, a set that a bad one must not replace. */
static char good[8192];

static void read_good(void)
{
	FILE *file = fopen("fuzz/tls/good.pem", "re"); /* scripts/fuzz runs it in the top folder */

	if (!file || fread(good, 1, sizeof good - 1, file) == 0)
		abort();
	fclose(file);
}

/* Appends the data, wrapped as BEGIN <what> ... END <what>, to the text `before`. */
static char *to_pem(const uint8_t *data, size_t size, const char *what, const char *before)
{
	const size_t room = strlen(before) + 2 * size + size / 24 + 200;
	char *text = malloc(room);
	char *base64 = malloc(2 * size + 8);
	size_t at;

	if (!text || !base64)
		abort();
	EVP_EncodeBlock((unsigned char *)base64, data, (int)size);
	at = (size_t)snprintf(text, room, "%s-----BEGIN %s-----\n", before, what);
	for (const char *line = base64; *line; line += strnlen(line, 64))
		at += (size_t)snprintf(text + at, room - at, "%.64s\n", line);
	snprintf(text + at, room - at, "-----END %s-----\n", what);
	free(base64);
	return text;
}

static char *copy_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + sizeof "-----BEGIN");

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (!strstr(text, "-----BEGIN")) /* it would be the path of a file */
		strcpy(text, "-----BEGIN");
	return text;
}

static void expect(int err)
{
	if (err != 0 && err != -EBADMSG && err != -ENOENT && err != -ESTALE && err != -EINVAL)
		abort();
	if (err != 0 && !*sn_tls_last_error())
		abort();
	if (ERR_peek_error() != 0 && err == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sn_tls_certificate list = {good, good};
	const struct sn_tls_set *before;
	sn_tls_config *config, *client;
	char *text = NULL;
	int err = 0;

	if (size < 2 || size > MOST)
		return 0;
	if (!good[0])
		read_good();
	if (sn_tls_config_new(&config, SN_TLS_SERVER) < 0 ||
	    sn_tls_config_set_certificates(config, &list, 1) < 0)
		abort();
	before = config->set;
	switch (*data) {
	case 'O':
		err = sn_tls_config_set_ocsp_response(config, data + 1, size - 1);
		break;
	case 'C':
		text = to_pem(data + 1, size - 1, "CERTIFICATE", "");
		list.chain = text;
		break;
	case 'K':
		text = to_pem(data + 1, size - 1, "PRIVATE KEY", "");
		list.key = text;
		break;
	default:
		text = copy_text(data + 1, size - 1);
		list.chain = text;
		list.key = text;
		break;
	}
	if (text)
		err = sn_tls_config_set_certificates(config, &list, 1);
	expect(err);
	if (!config->set || (err != 0 && config->set != before))
		abort();
	sn_tls_config_unref(config);
	/* The same text as the authorities that a client trusts. */
	if (text && sn_tls_config_new(&client, SN_TLS_CLIENT) == 0) {
		expect(sn_tls_config_add_ca(client, text));
		ERR_clear_error();
		expect(sn_tls_config_add_crl(client, text));
		sn_tls_config_unref(client);
	}
	ERR_clear_error();
	free(text);
	return 0;
}
