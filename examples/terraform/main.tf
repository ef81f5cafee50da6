# A network that every apply replaces. The state is in a file beside this one; a real project keeps it in a bucket.
variable "change" {
  type    = string
  default = "first"
}

resource "terraform_data" "network" {
  input = var.change
}

output "network" {
  value = terraform_data.network.output
}
