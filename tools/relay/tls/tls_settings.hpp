/* SPDX-License-Identifier: MIT */
/*
 * TLS as the configuration asks for it: at a listener, which ends its clients' TLS, and to the
 * backends of a group. Names of files only; tls_context.hpp reads them.
 */
#ifndef RELAY_TLS_SETTINGS_HPP
#define RELAY_TLS_SETTINGS_HPP

#include <string>
#include <vector>

namespace relay
{

enum class tls_version : unsigned char { v1_2, v1_3 };

/* Whether clients show a certificate. */
enum class client_certificates : unsigned char {
	none,
	optional, /* one that is shown has to be good */
	required,
};

/* Files in PEM. The key may be in the file of the certificate. */
struct tls_certificate_files {
	std::string chain; /* the certificate, and those between it and the root */
	std::string key;

	bool operator==(const tls_certificate_files &) const = default;
};

/* The settings of a listener. */
struct tls_server_settings {
	std::vector<tls_certificate_files>
		certificates;            /* at least one; the first is the default */
	std::vector<std::string> alpn{}; /* the preferred one first; empty: ALPN is not looked at */
	tls_version lowest = tls_version::v1_2;
	client_certificates clients = client_certificates::none;
	std::string client_ca{}; /* a file or a folder; empty if there are no client certificates */
	std::string client_crl{}; /* a file; empty: none */

	bool operator==(const tls_server_settings &) const = default;
};

/* The settings of a group. */
struct tls_client_settings {
	bool verify = true;
	std::string ca{};   /* a file or a folder; empty: the system's */
	std::string crl{};  /* a file; empty: none */
	std::string name{}; /* that certificates have to be for; empty: the host of the backend */
	tls_certificate_files certificate{}; /* that backends may ask for; empty: none */
	std::vector<std::string> alpn{}; /* offered; empty: what was agreed on with the client */
	tls_version lowest = tls_version::v1_2;

	bool operator==(const tls_client_settings &) const = default;
};

} // namespace relay

#endif
