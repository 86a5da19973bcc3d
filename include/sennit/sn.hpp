/* SPDX-License-Identifier: MIT */
/*
 * The short name: sn:: for sennit::. No other C++ header of sennit declares a name in the global
 * namespace. Include this one beside them, or write its last line where you want it. The examples
 * in documents and comments assume it.
 *
 * Threads outside the runtime and signal handlers: there are no calls here.
 */
#ifndef SENNIT_SN_HPP
#define SENNIT_SN_HPP

namespace sennit
{
}

namespace sn = sennit; // NOLINT: what this header is for

#endif
