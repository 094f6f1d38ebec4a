// The public header of Status and Result, under the name that capstan's own folders use.
#pragma once

#include <capstan/status.h>
