# queen_room(NAME ROOMS <rooms it may include> LIBS <libraries>): one static library of src/NAME/**.cc
# (tests and main.cc left out) and one test program NAME_tests of src/NAME/tests/*_test.cc.
set(QUEEN_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)

function(queen_compile target)
  target_compile_options(${target} PRIVATE ${QUEEN_WARNINGS})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(QUEEN_FUZZ)
    # libstdc++ 12 calls what it deprecates itself; GCC does not look into system headers for it, clang does.
    target_compile_options(${target} PUBLIC -fsanitize=fuzzer-no-link -Wno-deprecated-declarations)
  endif()
  if(QUEEN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${QUEEN_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${QUEEN_SANITIZE})
    # GCC 12 takes a moved-from Result or optional for an uninitialised one once the sanitizers' checks stand
    # between. The warning stays on in the builds without them.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    if(QUEEN_SANITIZE MATCHES "thread")
      # GCC warns that TSan does not model std::atomic_thread_fence, which Asio uses.
      target_compile_options(${target} PUBLIC $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    endif()
  endif()
endfunction()

configure_file(${CMAKE_SOURCE_DIR}/cmake/source_dir.cc.in ${CMAKE_BINARY_DIR}/source_dir.cc @ONLY)
add_library(queen_source_dir OBJECT ${CMAKE_BINARY_DIR}/source_dir.cc)
target_include_directories(queen_source_dir PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)

function(queen_room name)
  cmake_parse_arguments(ROOM "" "" "ROOMS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/tests/|/main\\.cc$")
  set(links ${ROOM_LIBS})
  foreach(room ${ROOM_ROOMS})
    list(APPEND links queen_${room})
  endforeach()
  if(sources)
    add_library(queen_${name} STATIC ${sources})
    queen_compile(queen_${name})
    target_link_libraries(queen_${name} PUBLIC ${links})
  else()
    add_library(queen_${name} INTERFACE)
    target_link_libraries(queen_${name} INTERFACE ${links})
  endif()

  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/tests/*.cc)
  if(tests AND NOT QUEEN_FUZZ)
    add_executable(${name}_tests ${tests})
    queen_compile(${name}_tests)
    target_sources(${name}_tests PRIVATE $<TARGET_OBJECTS:queen_source_dir>)
    target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)
    if(QUEEN_SANITIZE)
      # Checks in test code are not what the sanitizers are for, and optimising them is half of the build.
      target_compile_options(${name}_tests PRIVATE -O0)
    endif()
    target_link_libraries(${name}_tests PRIVATE queen_${name} GTest::gtest_main GTest::gmock ${QUEEN_RAPIDCHECK})
    add_test(NAME ${name}_tests COMMAND ${name}_tests)
    set_tests_properties(${name}_tests PROPERTIES TIMEOUT 900
      ENVIRONMENT "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp")
  endif()
endfunction()

# queen_program(NAME ROOM <room> MAIN <file>): an executable left at build/<preset>/NAME.
function(queen_program name)
  cmake_parse_arguments(PROG "" "ROOM;MAIN" "" ${ARGN})
  if(EXISTS ${CMAKE_SOURCE_DIR}/${PROG_MAIN} AND NOT QUEEN_FUZZ)
    add_executable(${name} ${PROG_MAIN})
    queen_compile(${name})
    target_link_libraries(${name} PRIVATE queen_${PROG_ROOM})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
endfunction()
