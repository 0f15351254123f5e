module franz

go 1.21
