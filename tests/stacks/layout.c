/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a row of versions.def with the headers of the CPython that this is compiled with, and prints what the
 * headers say. For another version: cc -I. -I PYTHON/include -I PYTHON/include/internal tests/stacks/layout.c
 * stacks/x/x.c ..., where PYTHON is its source tree or package.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <internal/pycore_pystate.h>
#if PY_MINOR_VERSION >= 9
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_MINOR_VERSION >= 14
#include <internal/pycore_interpframe.h>
#elif PY_MINOR_VERSION >= 11
#include <internal/pycore_frame.h>
#endif

#include "stacks/python/layout.h"

static int differences;

static void compare(const char *field, size_t headers, uint64_t row)
{
	printf("\t.%s = %zu,%s\n", field, headers, headers == row ? "" : " differs");
	differences += headers != row;
}

#define COMPARE(field, type, member) compare(#field, offsetof(type, member), row->field)

static void compare_states(const struct pylayout *row)
{
	COMPARE(runtime_interps, _PyRuntimeState, interpreters.head);
#if PY_MINOR_VERSION >= 12
	COMPARE(interp_gil, PyInterpreterState, ceval.gil);
#else
	COMPARE(runtime_gil, _PyRuntimeState, ceval.gil);
#endif
	COMPARE(gil_holder, struct _gil_runtime_state, last_holder);
	COMPARE(gil_locked, struct _gil_runtime_state, locked);
	COMPARE(interp_next, PyInterpreterState, next);
	COMPARE(interp_id, PyInterpreterState, id);
	COMPARE(thread_prev, PyThreadState, prev);
	COMPARE(thread_next, PyThreadState, next);
	COMPARE(thread_interp, PyThreadState, interp);
	COMPARE(thread_pthread, PyThreadState, thread_id);
#if PY_MINOR_VERSION >= 11
	COMPARE(interp_threads, PyInterpreterState, threads.head);
	COMPARE(thread_native, PyThreadState, native_thread_id);
#else
	COMPARE(interp_threads, PyInterpreterState, tstate_head);
#endif
}

static void compare_frames(const struct pylayout *row)
{
#if PY_MINOR_VERSION < 11
	COMPARE(thread_frame, PyThreadState, frame);
	COMPARE(frame_previous, PyFrameObject, f_back);
	COMPARE(frame_code, PyFrameObject, f_code);
	COMPARE(frame_instruction, PyFrameObject, f_lasti);
#else
	COMPARE(frame_previous, _PyInterpreterFrame, previous);
	COMPARE(frame_owner, _PyInterpreterFrame, owner);
#if PY_MINOR_VERSION < 13
	COMPARE(thread_frame, PyThreadState, cframe);
	COMPARE(cframe_frame, _PyCFrame, current_frame);
	COMPARE(cframe_previous, _PyCFrame, previous);
	COMPARE(frame_code, _PyInterpreterFrame, f_code);
	COMPARE(frame_instruction, _PyInterpreterFrame, prev_instr);
#else
	COMPARE(thread_frame, PyThreadState, current_frame);
	COMPARE(frame_code, _PyInterpreterFrame, f_executable);
	COMPARE(frame_instruction, _PyInterpreterFrame, instr_ptr);
#endif
#if PY_MINOR_VERSION == 11
	COMPARE(frame_entry, _PyInterpreterFrame, is_entry);
#endif
#endif
}

static void compare_objects(const struct pylayout *row)
{
	COMPARE(code_file, PyCodeObject, co_filename);
	COMPARE(code_name, PyCodeObject, co_name);
	COMPARE(code_first_line, PyCodeObject, co_firstlineno);
#if PY_MINOR_VERSION < 10
	COMPARE(code_lines, PyCodeObject, co_lnotab);
#else
	COMPARE(code_lines, PyCodeObject, co_linetable);
#endif
#if PY_MINOR_VERSION < 11
	COMPARE(code_bytes, PyCodeObject, co_code);
#else
	COMPARE(code_qualname, PyCodeObject, co_qualname);
	COMPARE(code_adaptive, PyCodeObject, co_code_adaptive);
	compare("code_traceable", offsetof(PyCodeObject, _co_firsttraceable),
		row->code_adaptive - PYLAYOUT_TRACEABLE_BACK);
#endif
	COMPARE(object_type, PyObject, ob_type);
	COMPARE(object_size, PyVarObject, ob_size);
	COMPARE(type_name, PyTypeObject, tp_name);
	COMPARE(type_members, PyTypeObject, tp_members);
	COMPARE(text_length, PyASCIIObject, length);
	COMPARE(text_state, PyASCIIObject, state);
	compare("text_ascii", sizeof(PyASCIIObject), row->text_ascii);
	compare("text_compact", sizeof(PyCompactUnicodeObject), row->text_compact);
	COMPARE(bytes_size, PyBytesObject, ob_base.ob_size);
	COMPARE(bytes_data, PyBytesObject, ob_sval);
}

int main(void)
{
	const struct pylayout *row = pylayout_row(PY_MINOR_VERSION);

	printf("%s\n", PY_VERSION);
	if (!row)
		return 1;
	compare_states(row);
	compare_frames(row);
	compare_objects(row);
	printf("%d differ\n", differences);
	return differences != 0;
}
