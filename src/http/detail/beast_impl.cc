// The bodies of Asio and Beast, compiled once for the whole program.

// GCC 12 with sanitizers believes that an empty boost::optional in Beast's parser is read.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
