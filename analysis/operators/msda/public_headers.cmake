msda_public_headers(msda_analysis operators/msda/call.h operators/msda/element.h operators/msda/landing.h)
