/* SPDX-License-Identifier: MIT */
#include "tls/tls_material.hpp"

#include "base/text.hpp"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

template <auto Free>
struct freer {
	template <class T>
	void operator()(T *object) const noexcept
	{
		Free(object);
	}
};

using certificate_ptr = std::unique_ptr<X509, freer<X509_free>>;

constexpr std::size_t most_protocols_of_clients = 64;
constexpr std::size_t longest_name = 256;

/* The text as one line, whatever a certificate contains. */
std::string to_line(const ASN1_STRING *text)
{
	unsigned char *utf8 = nullptr;
	const int size = text ? ASN1_STRING_to_UTF8(&utf8, text) : -1;
	if (size < 0)
		return "";
	std::string line(reinterpret_cast<const char *>(utf8), static_cast<std::size_t>(size));
	CRYPTO_free(utf8, "", 0); /* the macro has the path of this file */
	if (line.size() > longest_name) {
		std::size_t end = longest_name;
		while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80)
			end--;
		line.resize(end);
	}
	return to_printable(line);
}

std::string common_name(const X509_NAME *of)
{
	const int at = X509_NAME_get_index_by_NID(of, NID_commonName, -1);
	return at < 0 ? "" : to_line(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(of, at)));
}

std::string common_name(X509 *of)
{
	return common_name(X509_get_subject_name(of));
}

/* The first server name that the certificate is for, or else its common name. */
std::string name_of(X509 *of)
{
	std::string found;
	auto *names = static_cast<GENERAL_NAMES *>(
		X509_get_ext_d2i(of, NID_subject_alt_name, nullptr, nullptr));
	for (int i = 0; names && found.empty() && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *each = sk_GENERAL_NAME_value(names, i);
		if (each->type == GEN_DNS)
			found = to_line(each->d.dNSName);
	}
	GENERAL_NAMES_free(names);
	return found.empty() ? common_name(of) : found;
}

std::chrono::seconds to_seconds(const ASN1_TIME *time)
{
	std::tm parts{};
	return std::chrono::seconds(time && ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts)
									       : 0);
}

tls_certificate_info describe(const std::string &file, const std::string &pem)
{
	tls_certificate_info made;
	made.file = file;
	const std::unique_ptr<BIO, freer<BIO_free>> bio(
		BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
	const certificate_ptr first(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)
					: nullptr);
	if (!first)
		return made;
	made.name = name_of(first.get());
	made.not_before = to_seconds(X509_get0_notBefore(first.get()));
	made.not_after = to_seconds(X509_get0_notAfter(first.get()));
	return made;
}

/* The text in DER; empty if there is none. */
std::string der_of(X509_CRL *list, int extension)
{
	const int at = X509_CRL_get_ext_by_NID(list, extension, -1);
	const ASN1_OCTET_STRING *data =
		at < 0 ? nullptr : X509_EXTENSION_get_data(X509_CRL_get_ext(list, at));
	return data ? std::string(reinterpret_cast<const char *>(ASN1_STRING_get0_data(data)),
				  static_cast<std::size_t>(ASN1_STRING_length(data)))
		    : "";
}

/* Which other lists may replace it: those of the same issuer for the same certificates, which the
 * issuing distribution point names. */
std::string scope_of(X509_CRL *list)
{
	const unsigned char *der = nullptr;
	std::size_t size = 0;
	if (X509_NAME_get0_der(X509_CRL_get_issuer(list), &der, &size) != 1)
		return "";
	return std::string(reinterpret_cast<const char *>(der), size) + '\n' +
	       der_of(list, NID_issuing_distribution_point);
}

/*
 * Of lists that may replace one another, the library takes one that is valid now. So they count as
 * one list, from the first to the end of the last, without those that would leave a gap: the lists
 * around the present, or else the next ones, or else the last ones.
 */
tls_certificate_info join_lists(std::vector<tls_certificate_info> &lists, std::chrono::seconds now)
{
	std::ranges::sort(lists, {}, &tls_certificate_info::not_before);
	tls_certificate_info joined = lists.front();
	for (const auto &next : lists) {
		if (next.not_before <= joined.not_after)
			joined.not_after = std::max(joined.not_after, next.not_after);
		else if (joined.not_after <= now)
			joined = next;
	}
	return joined;
}

/* Adds the revocation lists of a configuration, which come from that file. */
void describe_lists(const sn::tls_config &config, const std::string &file,
		    std::vector<tls_certificate_info> &into)
{
	std::map<std::string, std::vector<tls_certificate_info>> lists; /* by their scope */
	auto *const of = static_cast<SSL_CTX *>(sn_tls_config_ssl_ctx(config.get()));
	const STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(of));
	for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
		X509_CRL *each = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(all, i));
		/* A list of differences only is not used. */
		if (!each || !X509_CRL_get0_nextUpdate(each) ||
		    X509_CRL_get_ext_by_NID(each, NID_delta_crl, -1) >= 0)
			continue;
		lists[scope_of(each)].push_back(
			{.file = file,
			 .name = common_name(X509_CRL_get_issuer(each)),
			 .not_before = to_seconds(X509_CRL_get0_lastUpdate(each)),
			 .not_after = to_seconds(X509_CRL_get0_nextUpdate(each)),
			 .is_list = true});
	}
	const std::chrono::seconds now(std::time(nullptr));
	for (auto &[scope, some] : lists)
		into.push_back(join_lists(some, now));
}

/* Returns false, and sets why, if the library has refused. */
bool is_done(const sn::result<void> &what, const std::string &file, tls_files &files,
	     std::string &why)
{
	if (what)
		return true;
	/* Any other error than one of the content, such as a lack of memory, may pass. */
	if (what.error() != std::errc::bad_message)
		files.leave_unjudged();
	why = '"' + file + "\": " + sn::tls_last_error();
	return false;
}

bool read_pair(const tls_certificate_files &which, tls_files &files, std::string &chain,
	       std::string &key, std::string &why)
{
	return files.read(which.chain, chain, why) && files.read(which.key, key, why);
}

/* Whether the pair can be used. This makes a configuration of its own, so it is for the error that
 * names one of several pairs only. */
bool is_good_pair(const tls_certificate_files &which, const sn_tls_certificate &text,
		  tls_files &files, std::string &why)
{
	const std::string both = which.chain == which.key
					 ? which.chain
					 : which.chain + "\" with the key \"" + which.key;
	return is_done(sn::tls_config(SN_TLS_SERVER).certificates({&text, 1}), both, files, why);
}

sn_tls_version to_library(tls_version version)
{
	return version == tls_version::v1_3 ? SN_TLS_1_3 : SN_TLS_1_2;
}

std::string join(const std::vector<std::string> &protocols)
{
	std::string all;
	for (const auto &each : protocols)
		all += (all.empty() ? "" : ",") + each;
	return all;
}

/* A text that differs if the authorities differ. */
std::string mark_of(const std::string &path, const std::string &authorities, const tls_files &files)
{
	return authorities == path ? path + files.stamps_of_folder(path) : authorities;
}

/*
 * A resumed session does not ask for the client's certificate again. A session is therefore valid
 * only for the listener that has verified the certificate, and only with the same authorities and
 * revocation lists.
 */
void set_session_context(const sn::tls_config &config, const tls_owner &owner,
			 const tls_server_settings &settings, const std::string &ca,
			 const std::string &crl)
{
	std::string text = owner.name;
	for (const auto &part : {ca, crl, std::to_string(static_cast<int>(settings.clients))})
		text += '\0' + std::to_string(part.size()) + '\0' + part;
	std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
	SHA256(reinterpret_cast<const unsigned char *>(text.data()), text.size(), hash.data());
	static_assert(SHA256_DIGEST_LENGTH <= SSL_MAX_SID_CTX_LENGTH);
	SSL_CTX_set_session_id_context(static_cast<SSL_CTX *>(sn_tls_config_ssl_ctx(config.get())),
				       hash.data(), hash.size());
}

bool trust_clients(const tls_owner &owner, const tls_server_settings &settings, tls_files &files,
		   tls_server_material &made, std::string &why)
{
	auto &config = made.config;
	std::string ca;
	std::string crl;
	std::string mark;
	if (settings.clients != client_certificates::none) {
		config.verify(settings.clients == client_certificates::required
				      ? SN_TLS_VERIFY_REQUIRE
				      : SN_TLS_VERIFY_REQUEST)
			.value();
		if (!files.read_authorities(settings.client_ca, ca, why) ||
		    !is_done(config.add_ca(ca), settings.client_ca, files, why)) {
			why = "client_ca: " + why;
			return false;
		}
		mark = mark_of(settings.client_ca, ca, files);
		if (!settings.client_crl.empty() &&
		    (!files.read(settings.client_crl, crl, why) ||
		     !is_done(config.add_crl(crl), settings.client_crl, files, why))) {
			why = "client_crl: " + why;
			return false;
		}
		describe_lists(config, settings.client_crl, made.certificates);
	}
	set_session_context(config, owner, settings, mark, crl);
	return true;
}

} // namespace

void set_tickets(const tls_server_material &of, const tls_tickets &keys)
{
	static_assert(tls_tickets::key_size == SN_TLS_TICKET_KEY);
	std::uint64_t generation = 0;
	auto list = keys.keys(&generation);
	const auto done = sn::tls_config(of.config).ticket_keys(list);
	for (auto &each : list)
		OPENSSL_cleanse(each.data(), each.size());
	done.value();
	of.tickets = generation;
}

std::shared_ptr<const tls_server_material> make_material(const tls_owner &owner,
							 const tls_server_settings &settings,
							 const tls_tickets *tickets,
							 tls_files &files, std::string &why)
{
	auto made = std::make_shared<tls_server_material>();
	struct pair {
		std::string chain, key;
	};
	std::vector<pair> texts(settings.certificates.size());
	std::vector<sn_tls_certificate> list;
	const auto failed = [&](std::size_t i) {
		why = key_of_pair(i, texts.size()) + ": " + why;
		return nullptr;
	};
	for (std::size_t i = 0; i < texts.size(); i++) {
		const auto &each = settings.certificates[i];
		if (!read_pair(each, files, texts[i].chain, texts[i].key, why))
			return failed(i);
		list.push_back({texts[i].chain.c_str(), texts[i].key.c_str()});
		made->certificates.push_back(describe(each.chain, texts[i].chain));
	}
	auto &config = made->config;
	if (const auto all = config.certificates(list); !all) {
		for (std::size_t i = 0; i < list.size(); i++)
			if (!is_good_pair(settings.certificates[i], list[i], files, why))
				return failed(i);
		all.value(); /* throws: there is no memory for all of them */
	}
	if (!settings.alpn.empty())
		config.alpn(join(settings.alpn)).value();
	config.versions(to_library(settings.lowest)).value();
	if (!trust_clients(owner, settings, files, *made, why))
		return nullptr;
	if (tickets)
		set_tickets(*made, *tickets);
	return made;
}

std::shared_ptr<const tls_client_material> make_material(const tls_client_settings &settings,
							 tls_files &files, std::string &why)
{
	auto made = std::make_shared<tls_client_material>();
	made->settings_ = settings;
	const auto failed = [&why](const char *key) {
		why = std::string(key) + ": " + why;
		return nullptr;
	};
	/* Each file is checked by itself, so that an error can name it. */
	sn::tls_config scratch(SN_TLS_CLIENT);
	if (!settings.ca.empty() && (!files.read_authorities(settings.ca, made->ca_, why) ||
				     !is_done(scratch.add_ca(made->ca_), settings.ca, files, why)))
		return failed("ca");
	if (!settings.crl.empty() &&
	    (!files.read(settings.crl, made->crl_, why) ||
	     !is_done(scratch.add_crl(made->crl_), settings.crl, files, why)))
		return failed("crl");
	if (!settings.certificate.chain.empty()) {
		const auto &names = settings.certificate;
		if (!read_pair(names, files, made->chain_, made->key_, why) ||
		    !is_good_pair(names, {made->chain_.c_str(), made->key_.c_str()}, files, why))
			return failed("certificate");
		made->certificates.push_back(describe(settings.certificate.chain, made->chain_));
	}
	describe_lists(scratch, settings.crl, made->certificates);
	made->made_.emplace("", made->make(""));
	return made;
}

sn::tls_config tls_client_material::make(const std::string &alpn) const
{
	sn::tls_config config(SN_TLS_CLIENT);
	if (!settings_.verify)
		config.verify(SN_TLS_VERIFY_NONE).value();
	if (!ca_.empty())
		config.add_ca(ca_).value();
	if (!crl_.empty())
		config.add_crl(crl_).value();
	if (!chain_.empty())
		config.certificate(chain_, key_).value();
	const std::string offered = settings_.alpn.empty() ? alpn : join(settings_.alpn);
	if (!offered.empty())
		config.alpn(offered).value();
	config.versions(to_library(settings_.lowest)).value();
	return config;
}

sn::tls_config tls_client_material::config_for(const std::string &alpn) const
{
	const std::string key = settings_.alpn.empty() ? alpn : "";
	{
		const std::lock_guard lock(lock_);
		const auto there = made_.find(key);
		if (there != made_.end())
			return there->second;
		if (made_.size() >= most_protocols_of_clients)
			return made_.at("");
	}
	/* Made without the lock, because this reads the system's authorities. If two tasks make
	 * one at the same time, both are equal. */
	auto next = sn::blocking([&] { return make(key); });
	const std::lock_guard lock(lock_);
	return made_.emplace(key, std::move(next)).first->second;
}

std::string common_name_of(const std::vector<std::byte> &der)
{
	const auto *at = reinterpret_cast<const unsigned char *>(der.data());
	const certificate_ptr of(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
	return of ? common_name(of.get()) : "";
}

} // namespace relay
