/* SPDX-License-Identifier: MIT */
/* The contexts and their handshakes, with OpenSSL. */
#include "tls/tls_context.hpp"

#include "base/retries.hpp"
#include "tls/tls_material.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <mutex>
#include <utility>

namespace relay
{

const bool tls_is_built = true;
static_assert(tls_stack == SN_TLS_STACK);

namespace
{

using namespace std::chrono_literals;

/* The limit for a handshake where the configuration sets none, for peers that stay silent. */
constexpr auto longest_handshake = 2min;

/* Calls it; returns its error, and sets why in the words of the library. */
template <class Call>
std::error_code explained(sn::tcp &on, std::string &why, Call call)
{
	const sn::result<void> done = call();
	if (done)
		return {};
	why = sn::tls_error(on);
	if (why.empty())
		why = done.error().message();
	return done.error();
}

sn::deadline bounded(sn::deadline until)
{
	return until == sn::no_deadline ? sn::after(longest_handshake) : until;
}

std::string lower(std::string_view text)
{
	std::string made(text);
	std::ranges::transform(made, made.begin(), [](char c) {
		return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
	});
	/* As in tls_hello.cc, because a client may send something that is not a name. */
	if (made.ends_with('.'))
		made.pop_back();
	return made;
}

/* A context whose material is replaced while connections use the old one. */
template <class Material>
class context : public tls_context
{
public:
	context(tls_owner owner, tls_settings settings)
	    : tls_context(std::move(owner), std::move(settings))
	{
	}

	/* Makes the first material of these files. */
	bool begin(tls_files files, std::string &why)
	{
		auto made = read(files, why);
		if (!made) {
			why = owner().key() + '.' + why;
			return false;
		}
		now_ = std::move(made);
		files_ = std::move(files);
		files_.forget_texts();
		seen_ = files_.before();
		return true;
	}

	seen look(std::string &why) override
	{
		const auto found = files_.now();
		/* Waits for one look without a change, because another file may still be being
		 * replaced. */
		const bool is_settled = found == seen_;
		if (!is_settled)
			retries_.reset();
		seen_ = found;
		if (found == files_.before())
			retries_.reset();
		if (found == files_.before() || !is_settled || found == refused_ ||
		    !retries_.is_due())
			return seen::same;
		tls_files files;
		auto made = try_to_read(files, why);
		if (!made) {
			why = owner().key() + '.' + why;
			if (!files.is_judged())
				return retries_.fail() ? seen::bad : seen::same;
			refused_ = found;
			retries_.reset();
			return seen::bad;
		}
		retries_.reset();
		files_ = std::move(files);
		files_.forget_texts();
		seen_ = files_.before();
		refused_ = {};
		const std::lock_guard lock(lock_);
		now_ = std::move(made);
		return seen::reloaded;
	}

	std::vector<tls_certificate_info> certificates() const override
	{
		return now()->certificates;
	}

protected:
	virtual tls_files read_files() const = 0;
	virtual std::shared_ptr<const Material> read(tls_files &files, std::string &why) = 0;

	std::shared_ptr<const Material> now() const
	{
		const std::lock_guard lock(lock_);
		return now_;
	}

private:
	/* Reads all files before any is parsed: while one cannot be read, an attempt is cheap, also
	 * with thousands of certificates. */
	std::shared_ptr<const Material> try_to_read(tls_files &files, std::string &why)
	try {
		files = read_files();
		if (files.is_judged())
			return read(files, why);
		why = files.unread();
		return nullptr;
	} catch (const std::exception &error) {
		files.leave_unjudged();
		why = error.what();
		return nullptr;
	}

	mutable std::mutex lock_;
	std::shared_ptr<const Material> now_;
	/* Used only by look(), which has one caller at a time. */
	tls_files files_;
	file_stamps seen_;    /* at the last look */
	file_stamps refused_; /* the state whose content could not be used */
	retries retries_;     /* of attempts that could not read or judge the files */
};

class server_context final : public context<tls_server_material>
{
public:
	server_context(tls_owner owner, tls_settings settings, const tls_tickets *tickets)
	    : context(std::move(owner), std::move(settings)), tickets_(tickets)
	{
	}

	void renew_tickets(const tls_tickets &keys) override
	{
		if (const auto material = now(); tickets_ && material->tickets != keys.generation())
			set_tickets(*material, keys);
	}

	std::error_code accept(sn::tcp &client, sn::deadline until, tls_facts &into,
			       std::string &why) const override
	{
		const auto material = now();
		if (const auto failed = explained(
			    client, why, [&] { return sn::tls_server(client, material->config); }))
			return failed;
		if (const auto failed = explained(
			    client, why, [&] { return sn::tls_handshake(client, bounded(until)); }))
			return failed;
		const auto info = sn::tls_info(client);
		if (!info)
			return info.error();
		into.version = info->version == SN_TLS_1_3 ? "TLSv1.3" : "TLSv1.2";
		into.cipher = info->cipher;
		into.server_name = lower(info->server_name);
		into.alpn = info->alpn;
		into.resumed = info->resumed != 0;
		into.has_certificate = info->peer_size != 0;
		if (into.has_certificate)
			if (const auto der = sn::tls_peer_certificate(client))
				into.common_name = common_name_of(*der);
		return {};
	}

	std::error_code connect(sn::tcp &, const std::string &, const std::string &, sn::deadline,
				std::string &) const override
	{
		return std::make_error_code(std::errc::operation_not_supported);
	}

private:
	tls_files read_files() const override
	{
		return tls_files::of(std::get<tls_server_settings>(settings()));
	}

	std::shared_ptr<const tls_server_material> read(tls_files &files, std::string &why) override
	{
		return make_material(owner(), std::get<tls_server_settings>(settings()), tickets_,
				     files, why);
	}

	const tls_tickets *const tickets_;
};

class client_context final : public context<tls_client_material>
{
public:
	client_context(tls_owner owner, tls_settings settings)
	    : context(std::move(owner), std::move(settings))
	{
	}

	void renew_tickets(const tls_tickets &) override {}

	std::error_code accept(sn::tcp &, sn::deadline, tls_facts &, std::string &) const override
	{
		return std::make_error_code(std::errc::operation_not_supported);
	}

	std::error_code connect(sn::tcp &backend, const std::string &host, const std::string &alpn,
				sn::deadline until, std::string &why) const override
	{
		const auto &says = std::get<tls_client_settings>(settings());
		const auto config = now()->config_for(alpn);
		if (const auto failed = explained(backend, why, [&] {
			    return sn::tls_client(backend, config,
						  says.name.empty() ? host : says.name);
		    }))
			return failed;
		return explained(backend, why,
				 [&] { return sn::tls_handshake(backend, bounded(until)); });
	}

private:
	tls_files read_files() const override
	{
		return tls_files::of(std::get<tls_client_settings>(settings()));
	}

	std::shared_ptr<const tls_client_material> read(tls_files &files, std::string &why) override
	{
		return make_material(std::get<tls_client_settings>(settings()), files, why);
	}
};

} // namespace

std::shared_ptr<tls_context> tls_context::open(tls_owner owner, tls_settings settings,
					       tls_tickets *tickets, tls_files files,
					       std::string &why)
{
	const auto begun = [&](auto made) -> std::shared_ptr<tls_context> {
		return made->begin(std::move(files), why) ? made : nullptr;
	};
	if (std::holds_alternative<tls_server_settings>(settings))
		return begun(std::make_shared<server_context>(std::move(owner), std::move(settings),
							      tickets));
	return begun(std::make_shared<client_context>(std::move(owner), std::move(settings)));
}

std::string tls_context::reason(const sn::tcp &on)
{
	return sn::tls_error(on);
}

std::string tls_context::certificate_of(const sn::tcp &on)
{
	const auto der = sn::tls_peer_certificate(on);
	return der ? std::string(reinterpret_cast<const char *>(der->data()), der->size()) : "";
}

} // namespace relay
