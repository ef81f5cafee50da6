#!/usr/bin/env bash
# Apply a Terraform configuration under a lease: a second run waits for its turn instead of failing, a run that crashes
# blocks others for a minute only, and its state stays closed until a person has looked at it.
# Run it in a copy of this folder: ./apply.sh CHANGE
set -euo pipefail

terraform init -input=false > /dev/null
exec leasehold run terraform:prod/network --wait 30m --on-expiry quarantine --name "terraform apply ${1-first}" -- \
  terraform apply -auto-approve -input=false -lock=false -var "change=${1-first}"
