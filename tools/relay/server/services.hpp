/* SPDX-License-Identifier: MIT */
/*
 * Replaces the admin server, the control server and the access log of the process. As with a
 * change, nothing has changed until the use_ functions are called.
 */
#ifndef RELAY_SERVICES_HPP
#define RELAY_SERVICES_HPP

#include "admin/admin.hpp"
#include "base/host_names.hpp"
#include "config/config.hpp"
#include "server/serving.hpp"
#include "sessions/session.hpp"
#include "stats/access_log.hpp"
#include "stats/events.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace relay
{

class process_services
{
public:
	/* before: the configuration in effect; null at the start. */
	process_services(shared &all, serving &now, const config *before, const config &next);
	process_services(const process_services &) = delete;
	process_services &operator=(const process_services &) = delete;
	~process_services();

	/* Opens what is new, and makes what the servers need. If something cannot be opened,
	 * reports it and returns false. May park. */
	bool prepare();

	/* Prints the addresses of the servers that are new. */
	void announce() const;

	/* These start the new log and servers. A log that is started and not used is closed again,
	 * and such a server is retired, without the clients in its backlog if the process that
	 * hands over has the socket, too. They throw if no task can be started. */
	void start_log();
	void start_servers();

	/* These make the new log and servers those in use. They do not fail, and may park. */
	void use_log() noexcept;
	void use_servers() noexcept;

private:
	/* A server that is about to be replaced. */
	struct slot {
		const char *name;
		std::string_view handed_name;
		const std::string &address;
		int mode;
		std::unique_ptr<admin_server> &in_use;
		bool is_other = false;
		host_names names{}; /* under which it answers */
		std::unique_ptr<admin_server> next{};
		bool is_inherited = false; /* the socket of `next` */
		bool is_started = false;
	};

	bool open_server(slot &which, std::string &why);
	bool read_control_token(std::string &why);
	bool open_log(std::string &why);
	void configure(slot &which, admin_server &server) noexcept;

	shared &all_;
	serving &serving_;
	const config &next_;
	const event_kind fault_;
	std::array<slot, 2> servers_;
	std::string token_; /* that the control server asks for */
	const bool other_log_;
	std::shared_ptr<access_log> log_;
	bool is_log_started_ = false;
};

} // namespace relay

#endif
