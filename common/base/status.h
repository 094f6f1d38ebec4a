// The public header of status and result, by the name that capstan's own folders use.
#pragma once

#include <capstan/status.h>
